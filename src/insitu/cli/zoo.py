"""`insitu zoo`: named models and data sets, where they come from, and whether they are in the cache."""

from __future__ import annotations

from insitu.cli.output import show
from insitu.terminal.table import pairs, size, table

HELP = "named models and data sets: where they come from, and whether they are in the cache"
EXAMPLES = """\
  insitu zoo                         all entries, and which are in the cache
  insitu zoo get mcunet-5fps         download it (INSITU_ZOO: from a mirror, an address or a folder), check it
  insitu zoo path mcunet-5fps        the path of the verified file, or how to get it
  insitu zoo check                   verify the sha256 of every cached file
  insitu zoo add mcunet-5fps.pkl     copy a downloaded file into the cache
  insitu compile zoo:mcunet-5fps --classes 10      a name works wherever a file does
"""


def arguments(parser) -> None:
    parser.add_argument("what", nargs="?", choices=tuple(ACTIONS), default="list", help="list, get, path, check or add")
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of an entry; for add: a file")
    parser.add_argument("--as", dest="entry", metavar="NAME", help="for add: the entry this file belongs to")


def run(arguments) -> int:
    return ACTIONS[arguments.what](arguments)


def listed(arguments) -> int:
    from insitu.zoo import ENTRIES, state_of, zoo_folder

    rows = [(e.name, e.kind, size(e.bytes), state_of(e), e.licence, e.title) for e in ENTRIES.values()]
    text = table(("name", "kind", "size", "state", "licence", ""), rows)
    data = [{**e.to_json(), "state": row[3]} for e, row in zip(ENTRIES.values(), rows)]
    show(arguments, f"{text}\n\ncache: {zoo_folder()} (INSITU_CACHE)", {"cache": str(zoo_folder()), "entries": data})
    return 0


def got(arguments) -> int:
    from insitu.zoo import get

    found = get(_named(arguments))
    show(arguments, str(found), {"path": str(found)})
    return 0


def path(arguments) -> int:
    from insitu.zoo import find

    found = find(_named(arguments))
    show(arguments, str(found), {"path": str(found)})
    return 0


def check(arguments) -> int:
    from insitu.zoo import ENTRIES, state_of
    from insitu.zoo.cache import entry_of

    chosen = [entry_of(arguments.name)] if arguments.name else list(ENTRIES.values())
    states = {e.name: state_of(e) for e in chosen}
    words = {"here": "here, checksum matches", "missing": "not here", "other": "here, but the CHECKSUM DIFFERS"}
    show(arguments, pairs((name, words[state]) for name, state in states.items()), states)
    wanted = ("missing", "other") if arguments.name else ("other",)
    return int(any(state in wanted for state in states.values()))


def added(arguments) -> int:
    from insitu.zoo import add, find

    entry = add(_named(arguments), arguments.entry)
    show(arguments, f"{entry.name}: {find(entry.name)}", {"name": entry.name, "path": str(find(entry.name))})
    return 0


def _named(arguments) -> str:
    from insitu.errors import DataError

    if not arguments.name:
        raise DataError(f"insitu zoo {arguments.what} needs a name", hint="insitu zoo lists them")
    return arguments.name


ACTIONS = {"list": listed, "get": got, "path": path, "check": check, "add": added}
