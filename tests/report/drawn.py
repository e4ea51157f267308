"""What stands in a figure, read from its axes."""

from matplotlib.container import ErrorbarContainer


def pictures(page):
    """By name."""
    return {picture.name: picture for picture in page.pictures}


def lines(axis):
    """What was drawn as a line, [point, (x, y)], by its label."""
    return {line.get_label(): line.get_xydata() for line in axis.lines}


def marks(axis):
    """What was drawn with errors, likewise."""
    found = [one for one in axis.containers if isinstance(one, ErrorbarContainer)]
    return {one.get_label(): one.lines[0].get_xydata() for one in found}


def spans(axis, label):
    """The lengths of error bars, that to a limit included."""
    (found,) = (one for one in axis.containers if isinstance(one, ErrorbarContainer) and one.get_label() == label)
    return [abs(end - start).max() for start, end in found.lines[2][0].get_segments()]


def legend(figure):
    return [text.get_text() for found in figure.legends for text in found.get_texts()]
