"""Tasks of language models: problems in words, answers of tokens, and rewards of any kind for them."""
