"""Settings of a network: variables that reach MPI, and refusals."""

import logging

import pytest

from neuro_cli.cli.options.groups import groups, option_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.fabric.emulation import HOSTS, PORT, netns
from neuro_cli.fabric.network import Network


def network(**settings) -> Network:
    return Network("ethernet_1g", **({"rate": 1e9, "latency": 1e-4} | settings))


@pytest.mark.parametrize("name", groups()["fabric"])
def test_an_option_is_called_as_its_file_and_has_a_cost_model_if_it_has_a_rate(name):
    node = option_of("fabric", name)
    assert node["name"] == name
    assert (node["rate"] is None) == (node["latency"] is None) == (node["cost"] is None)


def test_emulated_ranks_get_sockets_only_and_the_hosts_port():
    variables = network(emulate=True, environment={"UCX_TLS": "tcp,sm,self"}, interface="ib0").variables()
    assert variables["UCX_TLS"] == "tcp,self"
    assert variables["MPIR_CVAR_NOLOCAL"] == "1"
    assert not any("sm" in variables[name].split(",") for name in ("UCX_TLS", "OMPI_MCA_btl"))
    assert variables["UCX_NET_DEVICES"] == variables["FI_TCP_IFACE"] == variables["OMPI_MCA_btl_tcp_if_include"] == PORT


def test_an_interface_is_named_to_every_library():
    variables = network(environment={"UCX_TLS": "tcp"}, interface="ib0").variables()
    assert variables == {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "ib0", "FI_TCP_IFACE": "ib0", "OMPI_MCA_btl_tcp_if_include": "ib0"}
    assert network().variables() == {}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"emulate": True, "rate": None}, "fabric.emulate=True: fabric=ethernet_1g has no rate and latency to emulate"),
        ({"emulate": True, "rate": 5e10}, r"fabric.rate=5e\+10: at most 1e\+10 bit/s can be emulated; .* project=true"),
        ({"cost": {"all_gather": {"latency": 1}}}, "fabric.cost.all_gather={'latency': 1}: needs latency .* and bandwidth"),
        (
            {"cost": {"all_gather": {"latency": 1, "bandwidth": 1}, "all_reduce": {"latency": 1, "bandwidth": 0}}},
            "fabric.cost.all_reduce.bandwidth=0: must be a number > 0",
        ),
    ],
)
def test_bad_settings_are_named(settings, said):
    with pytest.raises(ConfigError, match=said):
        network(**settings)


def test_emulation_without_the_rights_says_what_lacks_and_the_ways_out(monkeypatch, tmp_path):
    monkeypatch.setattr(netns, "TUN", str(tmp_path / "absent"))
    with pytest.raises(
        ConfigError, match=r"fabric.emulate=True: .*(root|cannot be opened); fabric.emulate=false .* project=true"
    ):
        network(emulate=True).check_rights()
    network(emulate=False).check_rights()


def test_emulation_needs_a_world_that_neuro_starts(monkeypatch):
    monkeypatch.delenv(HOSTS, raising=False)
    with pytest.raises(ConfigError, match="give ranks=N, without a launcher"):
        network(emulate=True).connect(needs_mpi=False)


def test_another_launchers_settings_hold_and_are_told(monkeypatch, caplog):
    monkeypatch.delenv(HOSTS, raising=False)
    monkeypatch.setenv("UCX_TLS", "rc")
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)
    world = SingleProcess()
    world.size = 2
    with caplog.at_level(logging.WARNING):
        network(environment={"UCX_TLS": "tcp"}).describe(world)
    assert "fabric=ethernet_1g asks for UCX_TLS=tcp" in caplog.text
