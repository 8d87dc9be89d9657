#!/usr/bin/env bash
# A run with a seed in its config draws its first random numbers again after each restore
#
# Version: neat-python 2.0.0
# Belief: A checkpoint has the state of Python's generator, so that a restored run goes on as the undisturbed one; a seed in the
#   config makes a run repeatable.
# Seen: Without a seed in the config the last ten of twenty generations are the same after a restore. With `seed = 3` there they
#   differ from the second one on: creating the population seeds the generator once more, after its state was restored.
# Means: Restored runs of one seed are not runs of that seed, and every restore repeats the mutations of the first generations. Give
#   the seed to `Population(config, seed=...)`, not to the config.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet neat-python==2.0.0
cd "$folder"
cat > program.py <<'EOF'
import neat

NUMBERS = {
    "": "activation_default sigmoid activation_mutate_rate 0 activation_options sigmoid aggregation_default sum "
    "aggregation_mutate_rate 0 aggregation_options sum compatibility_disjoint_coefficient 1 "
    "compatibility_weight_coefficient 0.5 conn_add_prob 0.5 conn_delete_prob 0.5 enabled_default True enabled_mutate_rate 0.01 "
    "enabled_rate_to_true_add 0 enabled_rate_to_false_add 0 feed_forward True initial_connection full_direct node_add_prob 0.2 "
    "node_delete_prob 0.2 num_hidden 0 num_inputs 2 num_outputs 1 single_structural_mutation False "
    "structural_mutation_surer default",
    "bias_": "init_mean 0 init_stdev 1 init_type gaussian max_value 30 min_value -30 mutate_power 0.5 mutate_rate 0.7 replace_rate 0.1",
    "weight_": "init_mean 0 init_stdev 1 init_type gaussian max_value 30 min_value -30 mutate_power 0.5 mutate_rate 0.8 replace_rate 0.1",
    "response_": "init_mean 1 init_stdev 0 init_type gaussian max_value 30 min_value -30 mutate_power 0 mutate_rate 0 replace_rate 0",
}
SECTIONS = {
    "DefaultSpeciesSet": "compatibility_threshold 3",
    "DefaultStagnation": "species_fitness_func max max_stagnation 20 species_elitism 2",
    "DefaultReproduction": "elitism 2 survival_threshold 0.2 min_species_size 2",
}
XOR = [((0, 0), 0), ((0, 1), 1), ((1, 0), 1), ((1, 1), 0)]


def lines(text, prefix=""):
    words = text.split()
    return [f"{prefix}{name} = {value}" for name, value in zip(words[::2], words[1::2], strict=True)]


def config(seed):
    text = ["[NEAT]", *lines("fitness_criterion max fitness_threshold 99 no_fitness_termination True pop_size 40 reset_on_extinction False")]
    text += [f"seed = {seed}"] if seed else []
    text += ["[DefaultGenome]", *(line for prefix, words in NUMBERS.items() for line in lines(words, prefix))]
    for name, words in SECTIONS.items():
        text += [f"[{name}]", *lines(words)]
    with open("config", "w") as file:
        file.write("\n".join(text))
    parts = (neat.DefaultGenome, neat.DefaultReproduction, neat.DefaultSpeciesSet, neat.DefaultStagnation)
    return neat.Config(*parts, "config")


def same_after_restore(in_config, given):
    sums = []

    def score(genomes, settings):
        for _, genome in genomes:
            network = neat.nn.FeedForwardNetwork.create(genome, settings)
            genome.fitness = 4 - sum((network.activate(x)[0] - y) ** 2 for x, y in XOR)
        sums.append(sum(genome.fitness for _, genome in genomes))

    population = neat.Population(config(in_config), seed=given)
    population.add_reporter(neat.Checkpointer(10))
    population.run(score, 20)
    undisturbed = sums[10:]
    sums.clear()
    neat.Checkpointer.restore_checkpoint("neat-checkpoint-10").run(score, 10)
    return [a == b for a, b in zip(undisturbed, sums, strict=True)]


seeded, given = same_after_restore(3, None), same_after_restore(None, 3)
print("seed in the config, same generations:", seeded)
print("seed as an argument, same generations:", given)
raise SystemExit(not (all(given) and seeded[0] and not any(seeded[1:])))
EOF
"$folder/venv/bin/python" program.py
