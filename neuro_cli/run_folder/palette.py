"""The colours of all figures: told apart by colour-blind readers and in print."""

# M. Okabe, K. Ito, "Color Universal Design", 2008: for figures in files
VERMILION, BLUE, GREEN, ORANGE = "#D55E00", "#0072B2", "#009E73", "#E69F00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#999999"

# for pages, after the palettes of Okabe and Ito and of Paul Tol: (on white, on near-black), each at least 3:1 against its ground;
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
    """Of the light page: how a figure is drawn before the script looks at the reader's choice."""
    return COLOURS[place % len(COLOURS)][0]


def dash(place: int) -> str:
    """Another way to draw a line for those that share a colour."""
    return DASHES[place // len(COLOURS) % len(DASHES)]
