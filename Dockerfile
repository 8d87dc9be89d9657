# neuro with MPICH: docker build -t neuro . && docker run --rm -v "$PWD/outputs:/runs/outputs" neuro train
# torch's default wheels have CUDA (--gpus all) and take 6 GB; --build-arg TORCH_INDEX=URL takes another index, as that of its CPU wheels
FROM python:3.12-slim
ARG TORCH_INDEX=
ARG EXTRAS=mpi,tensorboard
WORKDIR /opt/neuro
RUN pip install --no-cache-dir torch torchvision ${TORCH_INDEX:+--index-url ${TORCH_INDEX}}
COPY pyproject.toml README.md LICENSE ./
COPY neuro_cli neuro_cli
COPY conf conf
RUN pip install --no-cache-dir ".[${EXTRAS}]"
RUN useradd --create-home neuro && mkdir /runs && chown neuro /runs
USER neuro
WORKDIR /runs
ENTRYPOINT ["neuro"]
CMD ["--help"]
