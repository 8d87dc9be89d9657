"""Colours that colour-blind readers tell apart, for a light and for a dark page; a page's script chooses."""

# after the palettes of Okabe and Ito and of Paul Tol: (on white, on near-black), each at least 3:1 against its ground
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
