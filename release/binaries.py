"""What the loaders of systems that are not here would reject in programs and extension modules, read from the files."""

import hashlib
import pathlib
import struct
from collections.abc import Iterator

import lief

lief.logging.disable()  # files with problems are reported here

# The libraries of Windows 10 that a C++ program may need; those of its C library begin as the last of them.
WINDOWS_LIBRARIES = ("kernel32.dll", "advapi32.dll", "shell32.dll", "ws2_32.dll", "ntdll.dll", "api-ms-win-crt-")


def page_hashes(signature: bytes) -> tuple[int, int, list[bytes]]:
    """What a Mach-O code signature covers: how much of the file is signed, in pages of how many bytes, and their
    hashes."""
    count = struct.unpack_from(">I", signature, 8)[0]
    blobs = dict(struct.unpack_from(">II", signature, 12 + 8 * i) for i in range(count))
    directory = signature[blobs[0] :]
    hash_offset, num_pages, limit = (struct.unpack_from(">I", directory, at)[0] for at in (16, 28, 32))
    size, kind, page = directory[36], directory[37], 1 << directory[39]
    if kind != 2:
        raise ValueError("the pages' hashes are not SHA-256")
    return limit, page, [directory[hash_offset + size * i :][:size] for i in range(num_pages)]


def mach_o_problems(path: pathlib.Path, minimum: tuple[int, int]) -> Iterator[str]:
    """Check a file that macOS on ARM is to load, from version `minimum` on. It must be signed, if by nobody."""
    fat = lief.MachO.parse(str(path))
    binary = None if fat is None else fat.at(0)
    if binary is None or binary.header.cpu_type != lief.MachO.Header.CPU_TYPE.ARM64:
        yield "is no Mach-O file for arm64"
        return
    version = binary.build_version
    if version is None or tuple(version.minos[:2]) > minimum:
        yield f"needs macOS {'of an unknown version' if version is None else '.'.join(map(str, version.minos))}"
    is_module = binary.header.file_type == lief.MachO.Header.FILE_TYPE.DYLIB
    for library in list(binary.libraries)[is_module:]:  # a module begins with its own name
        if library.name != "/usr/lib/libSystem.B.dylib":
            yield f"needs {library.name}"
    for binding in binary.bindings:
        name = binding.symbol.name if binding.has_symbol else ""
        if binding.library_ordinal < 0 and not (is_module and name.startswith(("_Py", "__Py"))):
            yield f"{name} is undefined"
    if is_module and not any(symbol.name == "_PyInit__core" for symbol in binary.exported_symbols):
        yield "does not export PyInit__core"
    if not binary.has_code_signature:
        yield "has no signature"
        return
    limit, page, hashes = page_hashes(bytes(binary.code_signature.content))
    signed = path.read_bytes()[:limit]
    if hashes != [hashlib.sha256(signed[at : at + page]).digest() for at in range(0, limit, page)]:
        yield "was changed after it was signed"


def musl_problems(path: pathlib.Path) -> Iterator[str]:
    """Check a file for x86-64 whose C library is musl: any version of it that has the symbols, which have no
    versions."""
    binary = lief.ELF.parse(str(path))
    if binary is None or binary.header.machine_type != lief.ELF.ARCH.X86_64:
        yield "is no ELF file for x86-64"
        return
    for library in binary.libraries:
        if library != "libc.so":
            yield f"needs {library}"
    is_program = binary.has_interpreter
    if is_program and binary.interpreter != "/lib/ld-musl-x86_64.so.1":
        yield f"is loaded by {binary.interpreter}"
    if not is_program and not any(symbol.name == "PyInit__core" for symbol in binary.exported_symbols):
        yield "does not export PyInit__core"


def exported_names(path: pathlib.Path) -> set[str]:
    """The names that an ELF file defines."""
    binary = lief.ELF.parse(str(path))
    return set() if binary is None else {str(symbol.name) for symbol in binary.exported_symbols}


def undefined_names(path: pathlib.Path) -> set[str]:
    """What an ELF file must find in libraries, so weak references aside."""
    binary = lief.ELF.parse(str(path))
    needed = lief.ELF.Symbol.BINDING.GLOBAL
    symbols = [] if binary is None else binary.dynamic_symbols
    return {str(symbol.name) for symbol in symbols if symbol.shndx == 0 and symbol.binding == needed}


def pe_problems(path: pathlib.Path, library: str = "", entry: str = "") -> Iterator[str]:
    """Check a file that Windows is to load; for a module, the one other DLL that it needs, and what it exports."""
    binary = lief.PE.parse(str(path))
    if binary is None or binary.header.machine != lief.PE.Header.MACHINE_TYPES.AMD64:
        yield "is no PE file for x86-64"
        return
    for needed in binary.imports:
        if needed.name.lower() != library and not needed.name.lower().startswith(WINDOWS_LIBRARIES):
            yield f"needs {needed.name}"
    if entry and not any(exported.name == entry for exported in binary.get_export().entries):
        yield f"does not export {entry}"
