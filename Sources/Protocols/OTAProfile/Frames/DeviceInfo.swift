package import OTAFirmware

/// The value of the characteristic Info, which describes the device (docs/ota-profile.md, "Info").
///
/// The value is a list of items `{ type u8, length u8, value }` in ascending order of type. The parser skips items of unknown types.
package struct DeviceInfo: Equatable {
    /// The maximum length of the whole list in bytes.
    package static let longest = 512

    package var product = ""
    package var hardware: UInt16 = 0
    /// The security counter of the confirmed image. During a trial, this is the counter of the old image.
    package var securityCounter: UInt32 = 0
    /// The image format that the device boots: the raw value of an `ImageFormat`, or `anyImageFormat`.
    package var imageFormat: UInt8 = 0
    /// The value of `imageFormat` for a device that boots all formats (`OTA_FORMAT_ANY` in the device core).
    package static let anyImageFormat: UInt8 = 255
    /// The maximum size of an image in bytes. The space for the bootloader's trailer is not included.
    package var largestImage: UInt32 = 0
    /// The maximum length of a Data value in bytes, from 20 to 512. The sequence number at the start of the value is included.
    package var longestValue = 0
    /// The maximum number of chunks in flight, from 1 to 2047.
    package var window = 0
    /// The maximum time in seconds from the answer to APPLY until the device accepts a connection again.
    package var restartSeconds = 0
    /// The time limit in seconds from boot to CONFIRM. 0 means that the bootloader cannot roll back, so the device does not support trials.
    package var trialSeconds = 0
    /// The IDs of the device's trusted keys.
    package var keys: [KeyID] = []
    /// The first 8 bytes of the SHA-256 of the running image's manifest; nil if the device does not report the digest.
    package var running: [UInt8]?
    /// The partial upload that the device stores; nil if the device stores no partial upload.
    package var held: Held?
    /// The size in bytes of the largest base that the device can use to decode an LZMA2 stream. The value is 0 if the device decodes only
    /// streams without a base. The value is nil if the device does not decode LZMA2 streams.
    package var largestBase: UInt32?
    /// The length of the longest envelope that the device can receive, in bytes.
    package var longestEnvelope = 1332

    /// A partial upload: the first `offset` bytes of an image, which the device stores. The offset can be the size of the image.
    package struct Held: Equatable {
        /// The first 8 bytes of the SHA-256 of the image's manifest.
        package var manifestDigestPrefix: [UInt8]
        /// The number of received bytes.
        package var offset: Int
    }

    /// The types of the items that every device must send.
    private static let required: ClosedRange<UInt8> = 1...8

    /// Parses the value of Info.
    ///
    /// - Throws: ``FrameError`` if the list is too long, if an item is malformed or out of order, or if a required item is missing.
    package init(parsing bytes: [UInt8]) throws(FrameError) {
        guard bytes.count <= Self.longest else { throw FrameError(context: "Info has \(bytes.count) bytes") }
        self = try ByteReader.parse("Info", bytes) { reader in
            var info = DeviceInfo()
            var last: UInt8 = 0
            var missing = Set(Self.required)
            while reader.remaining > 0 {
                let type: UInt8 = try reader.read()
                let length: UInt8 = try reader.read()
                guard type > last else { throw FrameError(context: "type \(type) follows type \(last)") }
                last = type
                missing.remove(type)
                var value = try reader.reader(over: Int(length))
                try info.take(type, &value)
            }
            guard missing.isEmpty else { throw FrameError(context: "no type \(missing.sorted())") }
            return info
        }
    }

    private init() {}

    private mutating func take(_ type: UInt8, _ value: inout ByteReader) throws {
        switch type {
        case 1:
            let version: UInt8 = try value.read()
            guard version == 1 else { throw FrameError(context: "version \(version) of the profile is not known here") }
        case 2:
            guard let name = ProductName(String(decoding: value.unread, as: UTF8.self)) else {
                throw FrameError(context: "not a product name")
            }
            product = name.text
            _ = try value.read(value.remaining)
        case 3: hardware = try value.read()
        case 4: securityCounter = try value.read()
        case 5: (imageFormat, largestImage) = (try value.read(), try value.read())
        case 6:
            (longestValue, window) = (Int(try value.read(UInt16.self)), Int(try value.read(UInt16.self)))
            guard 20...512 ~= longestValue, 1...2047 ~= window else {
                throw FrameError(context: "Data values of \(longestValue) bytes, window of \(window) chunks")
            }
        case 7: (restartSeconds, trialSeconds) = (Int(try value.read(UInt16.self)), Int(try value.read(UInt16.self)))
        case 8:
            guard 1...16 ~= value.remaining / 8 else { throw FrameError(context: "\(value.remaining) bytes of keys") }
            while value.remaining > 0, let key = KeyID(bytes: try value.read(8)) { keys.append(key) }
        case 9: running = Array(try value.read(8))
        case 10:
            held = Held(manifestDigestPrefix: Array(try value.read(8)), offset: Int(try value.read(UInt32.self)))
        case 11:
            // The first byte is the number of the encoding. If the device does not have the encoding LZMA2, it receives plain images.
            let encoding: UInt8 = try value.read()
            let largest: UInt32 = try value.read()
            if encoding == Request.lzma2 { largestBase = largest }
        case 12:
            longestEnvelope = Int(try value.read(UInt16.self))
            guard 158...Envelope.maximumLength ~= longestEnvelope else {
                throw FrameError(context: "envelopes of at most \(longestEnvelope) bytes")
            }
        default: _ = try value.read(value.remaining)
        }
        guard value.remaining == 0 else {
            throw FrameError(context: "type \(type) is \(value.remaining) bytes too long")
        }
    }
}
