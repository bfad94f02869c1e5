/// A request to a device. The cases are the commands of SMP's groups 0 (OS), 1 (image), 3 (settings) and 128 (Memfault)
/// that an update needs.
package enum SMPRequest: Sendable, Equatable {
    /// Makes the device answer with the same text.
    case echo(String)
    /// Reads the size and the number of the device's buffers.
    case parameters
    /// Restarts the device.
    case reset
    /// Restarts the device into its firmware loader (Zephyr, `smp_group_0.rst`: `boot_mode` 1).
    case resetToLoader
    /// Reads the name of the bootloader.
    case bootloader
    /// Reads the mode in which the bootloader installs images.
    case bootloaderMode
    /// Reads information about the system. Each letter of `format` selects a value, like an option of the command `uname`. The letter `i`
    /// selects the board's name.
    case system(format: String)
    /// Reads the image list.
    case imageState
    /// Marks the image with this digest for the next boot. If `confirm` is true, the image becomes permanent at this boot. If `confirm` is
    /// false, the device boots the image on trial.
    ///
    /// If `digest` is nil and `confirm` is true, the device confirms the running image. If `digest` is nil and `confirm` is false, the
    /// request is a query whether the device can mark images.
    case setState(digest: [UInt8]?, confirm: Bool)
    /// Sends a chunk of an image.
    case upload(SMPChunk)
    /// Erases a slot. The number counts the slots of all images: image 1 has the slots 2 and 3. If `slot` is nil, the device erases slot 1
    /// (Zephyr, `smp_group_1.rst`).
    case erase(slot: Int?)
    /// Reads the slot list, which has the sizes of the slots.
    case slots
    /// Changes a setting in RAM (Zephyr, `smp_group_3.rst`).
    case writeSetting(name: String, value: [UInt8])
    /// Saves all settings.
    case saveSettings
    /// Reads the device's identity (``SMPDeviceInfo``).
    case deviceInfo

    /// The number of the group with the commands for the operating system.
    package static let systemGroup: UInt16 = 0
    /// The number of the group with the commands for images.
    package static let imageGroup: UInt16 = 1
    /// The number of the group with the commands for settings.
    package static let settingsGroup: UInt16 = 3
    /// The number of Memfault's group. It is the first number of the range for applications.
    package static let memfaultGroup: UInt16 = 128

    package var operation: SMPFrame.Operation {
        switch self {
        case .parameters, .bootloader, .bootloaderMode, .system, .imageState, .slots, .deviceInfo: .read
        case .echo, .reset, .resetToLoader, .setState, .upload, .erase, .writeSetting, .saveSettings: .write
        }
    }

    package var group: UInt16 {
        switch self {
        case .echo, .parameters, .reset, .resetToLoader, .bootloader, .bootloaderMode, .system: Self.systemGroup
        case .imageState, .setState, .upload, .erase, .slots: Self.imageGroup
        case .writeSetting, .saveSettings: Self.settingsGroup
        case .deviceInfo: Self.memfaultGroup
        }
    }

    package var command: UInt8 {
        switch self {
        case .echo, .imageState, .setState, .writeSetting, .deviceInfo: 0
        case .upload: 1
        case .saveSettings: 3
        case .reset, .resetToLoader, .erase: 5
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
        case .resetToLoader: "the request to restart into its firmware loader"
        case .bootloader, .bootloaderMode: "the request for its bootloader"
        case .system: "the request for its system information"
        case .imageState: "the request for its image list"
        case .setState(_, confirm: false): "the request to mark an image for trial"
        case .setState(nil, confirm: true): "confirm"
        case .setState(_, confirm: true): "the request to make an image permanent"
        case .upload: "upload"
        case .erase: "erase"
        case .slots: "the request for its slot list"
        case .writeSetting(let name, _): "the setting \(name)"
        case .saveSettings: "the request to save its settings"
        case .deviceInfo: "the request for its identity"
        }
    }

    /// The fields of the request's body.
    package var fields: [String: CBORValue] {
        switch self {
        case .echo(let text): ["d": .text(text)]
        case .system(let format): ["format": .text(format)]
        case .bootloaderMode: ["query": .text("mode")]
        case .resetToLoader: ["boot_mode": CBORValue(1)]
        case .writeSetting(let name, let value): ["name": .text(name), "val": .bytes(value)]
        case .setState(let digest, let confirm):
            ["confirm": CBORValue.bool(confirm)].merging(digest.map { ["hash": .bytes($0)] } ?? [:]) { $1 }
        case .upload(let chunk): chunk.fields
        case .erase(let slot): slot.map { ["slot": CBORValue($0)] } ?? [:]
        case .parameters, .reset, .bootloader, .imageState, .slots, .saveSettings, .deviceInfo: [:]
        }
    }

    /// Returns the packet of the request.
    package func frame(sequence: UInt8, version: SMPFrame.Version) -> SMPFrame {
        SMPFrame(
            version: version, operation: operation, group: group, sequence: sequence, command: command,
            body: CBOREncoder.encode(.map(fields)))
    }

    /// Returns whether a packet is the answer to this request.
    ///
    /// Accepts both `readAnswer` and `writeAnswer` for each request, because servers differ in the operation that they use for an answer.
    ///
    /// - Parameter sequence: the sequence number with which the request was sent.
    package func isAnswered(by frame: SMPFrame, sequence: UInt8) -> Bool {
        frame.sequence == sequence && frame.group == group && frame.command == command
            && [.readAnswer, .writeAnswer].contains(frame.operation)
    }
}

/// A chunk of an image in an upload request.
package struct SMPChunk: Sendable, Equatable {
    /// The properties of the image file, which are sent only in the first chunk.
    package struct Opening: Sendable, Equatable {
        /// The length of the image file in bytes.
        package var length: Int
        /// The SHA-256 of the whole image file. The device recognizes an interrupted upload by this digest.
        ///
        /// This digest is not the digest in the image list. The digest in the image list covers only a part of the file.
        package var digest: [UInt8]
        /// The image number of MCUboot; 0 on a device with one image.
        package var image: Int

        package init(length: Int, digest: [UInt8], image: Int) {
            self.length = length
            self.digest = digest
            self.image = image
        }
    }

    /// The properties of the image file in the first chunk; nil in all later chunks.
    package var opening: Opening?
    /// The offset of the chunk in the image file, in bytes.
    package var offset: Int
    package var data: [UInt8]

    package init(opening: Opening? = nil, offset: Int, data: [UInt8]) {
        self.opening = opening
        self.offset = offset
        self.data = data
    }

    /// The number of image bytes in the first chunk: the length of an MCUboot header.
    ///
    /// A server requires the complete header in the first chunk, because the server checks the header before it answers the chunk.
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

    /// The length of the packet in bytes, including the header.
    package var packetLength: Int {
        let empty = SMPRequest.upload(SMPChunk(opening: opening, offset: offset, data: []))
        // The empty packet already contains one byte of the CBOR head (see `capacity`).
        let head = data.count > 255 ? 2 : data.count > 23 ? 1 : 0
        return empty.frame(sequence: 0, version: .second).bytes.count + head + data.count
    }

    /// Returns the number of image bytes that fit in a packet. A result of 0 or less means that no image byte fits.
    ///
    /// - Parameters:
    ///   - opening: the properties of the image file for the first chunk; nil for all later chunks.
    ///   - offset: the offset of the chunk in the image file, in bytes.
    ///   - longest: the maximum length of the packet in bytes, including the header.
    package static func capacity(opening: Opening? = nil, offset: Int, longest: Int) -> Int {
        let empty = SMPRequest.upload(SMPChunk(opening: opening, offset: offset, data: []))
        let room = longest - empty.frame(sequence: 0, version: .second).bytes.count
        // The CBOR head of a byte string has one byte for up to 23 bytes of data. It has two bytes for up to 255 bytes of data, and three
        // bytes for up to 65535 bytes of data. The empty packet already contains a head of one byte, so only the additional bytes of the
        // head are subtracted.
        return [(23, 0), (255, 1), (65535, 2)].map { min($0.0, room - $0.1) }.max() ?? 0
    }
}
