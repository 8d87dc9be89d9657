"""Colours of all figures: colour-blind readers and prints on paper tell them apart."""

# M. Okabe, K. Ito, "Color Universal Design", 2008
VERMILION, BLUE, GREEN, ORANGE = "#D55E00", "#0072B2", "#009E73", "#E69F00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#999999"
CYCLE = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, BLACK)  # colours of lines, in their order
