/// A request to a device: the commands of SMP's group 0 (OS) and group 1 (image) that an update needs.
package enum SMPRequest: Sendable, Equatable {
    /// The device returns the text.
    case echo(String)
    /// Reads the size and number of the device's buffers.
    case parameters
    case reset
    case bootloader
    /// Reads the mode in which the bootloader installs images.
    case bootloaderMode
    /// Reads information about the system. The letters of `format` select it, as in the options of `uname`.
    case system(format: String)
    case imageState
    /// Marks the image with this digest for a trial at the next start; with `confirm`, permanently. Without a digest, marks the
    /// running image.
    case setState(digest: [UInt8]?, confirm: Bool)
    case upload(SMPChunk)
    /// Erases a slot; with nil, the device erases the slot that does not run.
    case erase(slot: Int?)
    case slots

    package static let systemGroup: UInt16 = 0
    package static let imageGroup: UInt16 = 1

    package var operation: SMPFrame.Operation {
        switch self {
        case .parameters, .bootloader, .bootloaderMode, .system, .imageState, .slots: .read
        case .echo, .reset, .setState, .upload, .erase: .write
        }
    }

    package var group: UInt16 {
        switch self {
        case .echo, .parameters, .reset, .bootloader, .bootloaderMode, .system: Self.systemGroup
        case .imageState, .setState, .upload, .erase, .slots: Self.imageGroup
        }
    }

    package var command: UInt8 {
        switch self {
        case .echo, .imageState, .setState: 0
        case .upload: 1
        case .reset, .erase: 5
        case .parameters, .slots: 6
        case .system: 7
        case .bootloader, .bootloaderMode: 8
        }
    }

    /// The name of the request in messages to the user.
    package var name: String {
        switch self {
        case .echo: "echo"
        case .parameters: "the request for its buffer parameters"
        case .reset: "reset"
        case .bootloader, .bootloaderMode: "the request for its bootloader"
        case .system: "the request for its system information"
        case .imageState: "the request for its image list"
        case .setState(_, confirm: false): "the request to mark an image for trial"
        case .setState(nil, confirm: true): "confirm"
        case .setState(_, confirm: true): "the request to make an image permanent"
        case .upload: "upload"
        case .erase: "erase"
        case .slots: "the request for its slot list"
        }
    }

    package var fields: [String: CBORValue] {
        switch self {
        case .echo(let text): ["d": .text(text)]
        case .system(let format): ["format": .text(format)]
        case .bootloaderMode: ["query": .text("mode")]
        case .setState(let digest, let confirm):
            ["confirm": CBORValue.bool(confirm)].merging(digest.map { ["hash": .bytes($0)] } ?? [:]) { $1 }
        case .upload(let chunk): chunk.fields
        case .erase(let slot): slot.map { ["slot": CBORValue($0)] } ?? [:]
        case .parameters, .reset, .bootloader, .imageState, .slots: [:]
        }
    }

    package func frame(sequence: UInt8, version: SMPFrame.Version) -> SMPFrame {
        SMPFrame(
            version: version, operation: operation, group: group, sequence: sequence, command: command,
            body: CBOREncoder.encode(.map(fields)))
    }

    /// Returns whether a frame is the answer to this request, which was sent with this sequence number.
    ///
    /// Both answer operations are accepted, because servers and clients do not agree on the operation of an answer.
    package func isAnswered(by frame: SMPFrame, sequence: UInt8) -> Bool {
        frame.sequence == sequence && frame.group == group && frame.command == command
            && [.readAnswer, .writeAnswer].contains(frame.operation)
    }
}

/// A chunk of an image in an upload request.
package struct SMPChunk: Sendable, Equatable {
    /// The properties of the image, which are sent with the first chunk.
    package struct Opening: Sendable, Equatable {
        /// The length of the image's file in bytes.
        package var length: Int
        /// The SHA-256 of the image's file, by which a device resumes an upload. It is not the digest in the image list.
        package var digest: [UInt8]
        /// The image number on a device with several processors.
        package var image: Int

        package init(length: Int, digest: [UInt8], image: Int) {
            self.length = length
            self.digest = digest
            self.image = image
        }
    }

    /// The image's properties. The chunk with offset 0 has them, and no other chunk.
    package var opening: Opening?
    package var offset: Int
    package var data: [UInt8]

    package init(opening: Opening? = nil, offset: Int, data: [UInt8]) {
        self.opening = opening
        self.offset = offset
        self.data = data
    }

    /// The number of image bytes in the first chunk.
    ///
    /// This is the length of the MCUboot header. A server can check the image with it and answer with its current offset.
    package static let openingLength = 32

    fileprivate var fields: [String: CBORValue] {
        var fields = ["off": CBORValue(offset), "data": .bytes(data)]
        if let opening {
            fields["len"] = CBORValue(opening.length)
            fields["sha"] = .bytes(opening.digest)
            if opening.image > 0 { fields["image"] = CBORValue(opening.image) }
        }
        return fields
    }

    /// Returns the number of image bytes that fit a frame of at most `longest` bytes, header included.
    package static func capacity(opening: Opening? = nil, offset: Int, longest: Int) -> Int {
        let empty = SMPRequest.upload(SMPChunk(opening: opening, offset: offset, data: []))
        let room = longest - empty.frame(sequence: 0, version: .second).bytes.count
        // The CBOR head of a byte string has one, two or three bytes. The empty frame already has a head of one byte.
        return [(23, 0), (255, 1), (65535, 2)].map { min($0.0, room - $0.1) }.max() ?? 0
    }
}
