"""Tasks of language models: prompts, answers of tokens, and their rewards."""
