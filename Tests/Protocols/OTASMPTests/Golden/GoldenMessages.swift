import OTASMP

/// The messages of `peer.py` as values of OTASMP.
enum GoldenMessages {
    static let digest = (0..<32).map { UInt8($0) }
    static let data = (0..<512).map { UInt8(truncatingIfNeeded: $0) }

    static let requests: [String: SMPRequest] = [
        "echo": .echo("hello"), "parameters": .parameters, "reset": .reset, "system": .system(format: "i"),
        "bootloader": .bootloader, "mode": .bootloaderMode, "state": .imageState,
        "test": .setState(digest: digest, confirm: false), "permanent": .setState(digest: digest, confirm: true),
        "confirm": .setState(digest: nil, confirm: true), "first-chunk": .upload(firstChunk(image: 0)),
        "first-chunk-2": .upload(firstChunk(image: 2)), "chunk": .upload(SMPChunk(offset: 65536, data: data)),
        "erase": .erase(slot: nil), "erase-1": .erase(slot: 1),
    ]

    static func firstChunk(image: Int) -> SMPChunk {
        SMPChunk(
            opening: SMPChunk.Opening(length: 70000, digest: digest, image: image), offset: 0,
            data: Array(data.prefix(32)))
    }

    static let answers: [String: (request: SMPRequest, answer: SMPAnswer)] = {
        let chunk = SMPRequest.upload(SMPChunk(offset: 65536, data: data))
        let list: [String: CBORValue] = ["images": .array([image(0), image(1)]), "splitStatus": CBORValue(0)]
        return [
            "echo": (.echo("hello"), .good(["r": .text("hello")])),
            "parameters": (.parameters, .good(["buf_size": CBORValue(2475), "buf_count": CBORValue(4)])),
            "reset": (.reset, .good([:])), "system": (.system(format: "i"), .good(["output": .text("nrf52840dk")])),
            "bootloader": (.bootloader, .good(["bootloader": .text("MCUboot")])), "state": (.imageState, .good(list)),
            "marked": (.setState(digest: digest, confirm: false), .good(list)),
            "chunk": (chunk, .good(["off": CBORValue(65536)])),
            "last-chunk": (chunk, .good(["off": CBORValue(70000), "match": .bool(true)])),
            "erase": (.erase(slot: nil), .good([:])), "refused": (chunk, .bad(.image(30))),
            "unsupported": (chunk, .bad(.unsupported)), "reason": (chunk, .bad(SMPError(code: 1))),
        ]
    }()

    private static func image(_ slot: Int) -> CBORValue {
        let second = slot == 1
        var fields: [String: CBORValue] = [
            "slot": CBORValue(slot), "version": .text(second ? "1.2.4.5" : "1.2.3"),
            "hash": .bytes(second ? digest.reversed() : digest), "bootable": .bool(true), "pending": .bool(second),
            "confirmed": .bool(!second), "active": .bool(!second), "permanent": .bool(second),
        ]
        if second { fields["image"] = CBORValue(1) }
        return .map(fields)
    }

    /// The image list of the answer `state`.
    static var list: SMPImageList {
        var running = SMPImageList.Entry()
        (running.version, running.digest) = ("1.2.3", digest)
        (running.bootable, running.confirmed, running.active) = (true, true, true)
        (running.pending, running.permanent) = (false, false)
        var other = SMPImageList.Entry()
        (other.image, other.slot, other.version, other.digest) = (1, 1, "1.2.4.5", digest.reversed())
        (other.bootable, other.pending, other.permanent) = (true, true, true)
        (other.confirmed, other.active) = (false, false)
        return SMPImageList([running, other])
    }
}
