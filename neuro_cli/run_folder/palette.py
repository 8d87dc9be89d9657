"""Colours of all figures: colour-blind readers and prints on paper tell them apart."""

# figures in files: M. Okabe, K. Ito, "Color Universal Design", 2008
VERMILION, BLUE, GREEN, ORANGE = "#D55E00", "#0072B2", "#009E73", "#E69F00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#999999"

# pages, after the palettes of Okabe and Ito and of Paul Tol: (on white, on near-black), with a contrast of at least 3:1;
# a page's script chooses
COLOURS = (
    ("#0072B2", "#56B4E9"),
    ("#C04A00", "#F28E52"),
    ("#00805B", "#2FC194"),
    ("#AA4499", "#E48FC4"),
    ("#8A6D00", "#E6C229"),
    ("#5B4FCF", "#A79DFF"),
    ("#5F6770", "#B3BAC2"),
    ("#A3123A", "#FF7F95"),
)
DASHES = ("solid", "dashed", "dotted")


def colour(place: int) -> str:
    """Return a colour of the light page, in which figures are drawn until the script applies the reader's choice."""
    return COLOURS[place % len(COLOURS)][0]


def dash(place: int) -> str:
    """Return the style of a line; lines that share a colour differ in it."""
    return DASHES[place // len(COLOURS) % len(DASHES)]
