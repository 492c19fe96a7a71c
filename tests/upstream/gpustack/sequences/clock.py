"""Virtual time, put in place before anything of upstream is imported."""
import datetime as real
import sqlalchemy

START = real.datetime(2030, 1, 1, tzinfo=real.timezone.utc)
now_ms = 0


def now():
    return START + real.timedelta(milliseconds=now_ms)


class datetime(real.datetime):
    """What the modules of upstream are given under this name."""

    @classmethod
    def now(cls, tz=None):
        return now() if tz else now().replace(tzinfo=None)


def stored_now():
    """The store's own `now()`: SQLite's CURRENT_TIMESTAMP has whole seconds."""
    return now().replace(microsecond=0)


def install():
    """Columns take their default from `sqlalchemy.func.now()` where they are defined, so this must come first."""
    kept = sqlalchemy.func

    class Functions:
        def __getattr__(self, name):
            return (lambda: stored_now) if name == "now" else getattr(kept, name)

    sqlalchemy.func = Functions()
    import gpustack.schemas  # noqa: F401
    sqlalchemy.func = kept


def patch(*modules):
    for module in modules:
        module.datetime = datetime
