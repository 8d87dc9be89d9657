#!/usr/bin/env bash
# Answers sampled under a grammar are not the model's answers that fit it: 60 % where they should be 2 %
#
# Version: xgrammar 0.2.8, torch 2.14.1
# Belief: Constrained sampling gives the model's own distribution among the valid texts: it saves the invalid draws of
#   sampling again until one fits.
# Seen: The mask renormalises each token by itself. For a model that says aaa with 0.006 and bbb with 0.324, sampling until
#   one is valid gives aaa in 2 % of all cases, and under the grammar in 60 %: the first token is drawn as if no end were bad,
#   and after it the mask forces the improbable rest.
# Means: A reward under constrained decoding measures another policy than the model; a member that learnt to avoid a bad
#   beginning differs in tokens that the mask hides. Log-likelihood ratios against the unmasked model are wrong too. Sample
#   again until valid where that is cheap, or weigh samples by the product of the masked sums.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet xgrammar==0.2.8 torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import torch
import xgrammar

tokens = ["a", "b", "c", "<end>"]
info = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[3])
grammar = xgrammar.GrammarCompiler(info).compile_grammar('root ::= "aaa" | "bbb"')
after = {"": [0.6, 0.4, 0, 0], "a": [0.1, 0, 0.9, 0], "b": [0, 0.9, 0.1, 0], "c": [0, 0, 1, 0]}
draws = torch.Generator().manual_seed(0)


def answer(constrained):
    matcher, mask, text, weight = xgrammar.GrammarMatcher(grammar), xgrammar.allocate_token_bitmask(1, 4), "", 1.0
    while True:
        model = torch.tensor([0, 0, 0, 1.0] if len(text) == 3 else after[text[-1:]])
        logits = model.log()[None].clone()
        if constrained:
            matcher.fill_next_token_bitmask(mask)
            xgrammar.apply_token_bitmask_inplace(logits, mask)
        weight *= float(logits.exp().sum())
        token = int(torch.multinomial(logits.softmax(-1)[0], 1, generator=draws))
        if constrained:
            matcher.accept_token(token)
        if token == 3:
            return text, weight
        text += tokens[token]


masked = [answer(True) for _ in range(3000)]
valid = [text for text, _ in (answer(False) for _ in range(6000)) if text in ("aaa", "bbb")]
share = sum(text == "aaa" for text, _ in masked) / len(masked)
right = valid.count("aaa") / len(valid)
weighed = sum(weight for text, weight in masked if text == "aaa") / sum(weight for _, weight in masked)
print(f"aaa: {right:.1%} of {len(valid)} valid answers of the model, {share:.1%} under the grammar, {weighed:.1%} of those weighed")
raise SystemExit(not (right < 0.04 and share > 0.5 and abs(weighed - right) < 0.02))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
