"""Downloads models of the Hugging Face hub with huggingface_hub into its cache."""

from __future__ import annotations

import hashlib
import logging
import os
import pathlib
import shutil
import time
import warnings
from typing import TYPE_CHECKING

from . import _core

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

_logger = logging.getLogger("specdec_native")

_SHA256_DIGITS = 64  # in the name of a large file's blob
_MAX_QUESTIONS = 3  # requests for a repository's description
_MAX_WAIT_S = 300  # the longest wait that a server may ask for


def local_model(path: str | os.PathLike[str], with_projector: bool = False) -> str | os.PathLike[str]:
    """The path itself, or the path of the downloaded file if it has the form "hf:OWNER/REPOSITORY:QUANT".

    with_projector: also downloads the repository's projector, if it has one.
    """
    return download(path, with_projector) if isinstance(path, str) and path.startswith("hf:") else path


def download_companion(name: str) -> str:
    """`download` for draft="auto", which can continue without a draft model: raises only Error."""
    try:
        return download(name)
    except ImportError as error:
        raise _core.Error(str(error)) from None


def log_choice(sentence: str) -> None:
    """Logs a sentence about what was chosen: the draft of "auto", or the placement of layers."""
    _logger.info("%s", sentence)


def download(name: str, with_projector: bool = False) -> str:
    """The path of a model's file in the cache (of a split model, the first part), downloaded if necessary."""
    repository = _core.hub_repository(name)
    try:
        from huggingface_hub import constants, errors
    except ImportError:
        raise ImportError(
            f'"{name}" is on the Hugging Face hub: pip install "specdec_native[hub]", or give the path of a file'
        ) from None
    page = f"{constants.ENDPOINT}/{repository}"
    try:
        info = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else _describe(repository)
        if isinstance(info, str):
            return _cached(name, repository, info)
        names = [entry.rfilename for entry in info.siblings or []]
        files = _core.hub_model_files(name, names)
        if with_projector:
            files += _core.hub_projectors(names)[:1]
        _check_space(name, info, files)
        paths = [_download_file(repository, file) for file in files]
        return str(paths[0])
    except errors.GatedRepoError:
        raise _core.Error(
            f"{repository} is gated; accept its conditions at {page} and set HF_TOKEN to a token of that account"
        ) from None
    except errors.RepositoryNotFoundError:
        raise _core.Error(
            f"{repository} does not exist, or is private; check the name at {page}, or set HF_TOKEN to a token "
            "that may read it"
        ) from None
    except (errors.HfHubHTTPError, OSError) as error:
        raise _core.Error(f"{page}: {str(error).splitlines()[0]}") from error


def _describe(repository: str) -> ModelInfo | str:
    """The hub's description of a repository, or, if it cannot be reached, a sentence that says why.

    huggingface_hub retries downloads, but not this request.
    """
    import huggingface_hub as hub
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.errors import HfHubHTTPError

    for attempt in range(_MAX_QUESTIONS):
        try:
            return hub.HfApi().model_info(repository, files_metadata=True)
        except HfHubHTTPError as error:
            status, asked = error.response.status_code, error.response.headers.get("Retry-After", "")
            seconds = max(2**attempt, int(asked) if asked.isdigit() else 0)
            if (status != 429 and status < 500) or attempt + 1 == _MAX_QUESTIONS or seconds > _MAX_WAIT_S:
                raise
            time.sleep(seconds)
        except Exception as error:  # an error of the HTTP library, which differs between versions of huggingface_hub
            if not isinstance(error, OSError) and not type(error).__module__.startswith(
                ("httpx", "httpcore", "requests")
            ):
                raise
            return f"{ENDPOINT} cannot be reached ({error}); check the network, HTTPS_PROXY and SSL_CERT_FILE"
    raise AssertionError("the last attempt raises")


def _cached(name: str, repository: str, reason: str) -> str:
    """The path of the file from the cached main branch. reason: why the hub was not asked."""
    import huggingface_hub as hub
    from huggingface_hub.constants import HF_HUB_CACHE, HF_HUB_OFFLINE
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = pathlib.Path(hub.snapshot_download(repository, local_files_only=True))
        paths = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        cached = str(folder / _core.hub_model_files(name, paths)[0])
    except (LocalEntryNotFoundError, _core.ModelError):
        raise _core.Error(f"{name} is not in the cache {HF_HUB_CACHE}, and {reason}") from None
    if not HF_HUB_OFFLINE:
        warnings.warn(f"{reason}; using the cached {name}", RuntimeWarning, stacklevel=5)
    return cached


def _cached_file(repository: str, file: str) -> pathlib.Path | None:
    import huggingface_hub as hub

    path = hub.try_to_load_from_cache(repository, file)
    return pathlib.Path(path) if isinstance(path, str) else None


def _check_space(name: str, info: ModelInfo, files: list[str]) -> None:
    """Raises Error if the disk is too full: huggingface_hub only warns, and about one file at a time."""
    from huggingface_hub.constants import HF_HUB_CACHE

    sizes = {entry.rfilename: entry.size or 0 for entry in info.siblings or []}
    wanted = sum(sizes[file] for file in files if _cached_file(info.id, file) is None)
    folder = pathlib.Path(HF_HUB_CACHE).absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if wanted > free:
        raise _core.Error(
            f"{name} needs {wanted / 1e9:.2f} GB, and {folder} has {free / 1e9:.2f} GB free; free some, or set "
            "HF_HOME to a "
            "folder on another disk"
        )


def _download_file(repository: str, file: str) -> pathlib.Path:
    """Downloads a file and checks its SHA-256, which is the blob's name: huggingface_hub checks only the size."""
    import huggingface_hub as hub

    was_cached = _cached_file(repository, file) is not None
    path = pathlib.Path(hub.hf_hub_download(repository, file))
    blob = path.resolve()
    if was_cached or len(blob.name) != _SHA256_DIGITS:
        return path
    digest = hashlib.sha256()
    with blob.open("rb") as content:
        while piece := content.read(1 << 20):
            digest.update(piece)
    if digest.hexdigest() != blob.name:
        path.unlink()
        blob.unlink(missing_ok=True)
        raise _core.Error(
            f"{file}: the download has another size or checksum than the hub states; try again later, or check proxies"
        )
    return path
