"""From a store to the route table that it implies."""

from pathlib import Path

from mxtune.configs.errors import StoreError
from mxtune.configs.table import RouteTable
from mxtune.results.choose import table_of
from mxtune.results.store import STORE_FILE, Store
from mxtune.results.trial import Session


def routes_of(path: Path, session: str | None) -> RouteTable:
    """Return the route table of a store: of its newest session, or of the one that is named.

    Raises StoreError for a store without trials or with a session or a trial that lacks something,
    NoRouteError if nothing in it was right.
    """
    store = Store.open(path)
    try:
        sessions = store.sessions()
        number = pick(path, sessions, session)
        return table_of(sessions[number], store.trials(number))
    except (LookupError, TypeError, ValueError) as error:  # written by hand, or by another mxtune
        what = " ".join(str(error).split())
        raise StoreError(f"{path}: no table can be made of it ({what})") from error
    finally:
        store.close()


def pick(path: Path, sessions: dict[int, Session], wanted: str | None) -> int:
    """Return the number of the newest session, or of the one whose key begins with ``wanted``."""
    if not sessions:
        raise StoreError(f"{path}: no results in it; run a sweep first")
    if wanted is None:
        return max(sessions)
    fitting = [number for number, session in sessions.items() if session.key.startswith(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(session.key for session in sessions.values())
    what = "more than one session" if fitting else "no session"
    raise StoreError(f"{path}: {what} {wanted!r}; it has {known}")


def store_file(path: Path) -> Path:
    """Return the store in a sweep's folder, or ``path`` itself if it is a file."""
    return path / STORE_FILE if path.is_dir() else path
