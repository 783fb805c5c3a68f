"""The two forms of a message, MessagePack and JSON, and the mistakes in them that libraries let pass."""
import base64, json, math, re

import msgpack

SAFE = 2**53 - 1


class Unreadable(Exception):
    """A message that cannot be read, or that nests too deep."""

    def __init__(self, message, is_too_deep=False):
        super().__init__(message)
        self.is_too_deep = is_too_deep


class Packed(bytes):
    """The data of a row: msgpack bytes of a map. In JSON it is written as the map."""


def once(pairs):
    """A map of a message. A key that is there twice, or that is no text, is refused."""
    found = {}
    for key, value in pairs:
        if not isinstance(key, str) or key in found or key == "__proto__":
            raise Unreadable("a key that is refused, or there twice")
        found[key] = value
    return found


def restored(pairs):
    """A map of JSON, without the two writings of `$bytes`."""
    found = once(pairs)
    if "$bytes" in found:
        text = found["$bytes"]
        if len(found) > 1 or not isinstance(text, str) or not re.fullmatch(r"[-\w]*", text, re.ASCII):
            raise Unreadable("bytes that are not base64url")
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return once((key[1:] if re.fullmatch(r"\$\$+bytes", key) else key, value) for key, value in found.items())


def refuse(*_):
    raise Unreadable("a value that is refused")


def checked(value, depth=0):
    """Checks the values of a message, which libraries accept further than the page does."""
    if depth > 40:
        raise Unreadable("nested too deep", True)
    if isinstance(value, str):
        value.encode()  # A lone surrogate is no text.
    elif isinstance(value, dict):
        for key, inner in value.items():
            checked(key), checked(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            checked(inner, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise Unreadable("a number that is not finite")
    elif not isinstance(value, (bytes, bool, int, float, type(None))):
        raise Unreadable("an extension type")
    return value


def decode_msgpack(body):
    return msgpack.unpackb(body, raw=False, strict_map_key=False, object_pairs_hook=once, ext_hook=refuse)


def decode_json(body):
    return json.loads(body.decode(), object_pairs_hook=restored, parse_constant=refuse)


def plain(value):
    if isinstance(value, Packed):
        return plain(msgpack.unpackb(value))
    if isinstance(value, bytes):
        return {"$bytes": base64.urlsafe_b64encode(value).decode().rstrip("=")}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, dict):
        return {"$" + key if re.fullmatch(r"\$+bytes", key) else key: plain(inner) for key, inner in value.items()}
    return value


def encode_json(value):
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")).encode()


FORMS = {"application/msgpack": (decode_msgpack, msgpack.packb), "application/json": (decode_json, encode_json)}


def decode(form, body):
    try:
        return checked(FORMS[form][0](body))
    except Unreadable:
        raise
    except (RecursionError, msgpack.StackError):
        raise Unreadable("nested too deep", True)
    except (ValueError, msgpack.UnpackException) as error:
        raise Unreadable(str(error))


def normal(value, depth=1):
    """A value of arguments: 1.0 is 1, and an integer beyond 2^53 - 1 is the nearest double."""
    if depth > 33 or (depth > 32 and isinstance(value, (list, dict))):
        raise Unreadable("nested too deep", True)
    if isinstance(value, float) and value.is_integer() and abs(value) <= SAFE:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE:
        return float(value)
    if isinstance(value, list):
        return [normal(inner, depth + 1) for inner in value]
    if isinstance(value, dict):
        return {key: normal(inner, depth + 1) for key, inner in value.items()}
    return value


def canonical(value):
    """Bytes that are equal if two values are: the order of keys does not count."""
    if isinstance(value, dict):
        return msgpack.packb([[key, canonical(value[key])] for key in sorted(value)]) + b"m"
    if isinstance(value, list):
        return msgpack.packb([canonical(inner) for inner in value]) + b"l"
    return msgpack.packb(value)
