/// The init packet (`.dat`) of a package for Nordic Secure DFU, as `nrfutil pkg generate` writes it: a `Packet` of Protocol Buffers.
///
/// The source of the messages is `dfu-cc.proto` of nrfutil 6.1.7.
public struct SecureInitPacket: Sendable, Hashable {
    /// The kind of firmware (`FwType`).
    public enum FirmwareType: UInt32, Sendable {
        case application = 0
        case softDevice = 1
        case bootloader = 2
        case softDeviceBootloader = 3
        /// An application for another chip, which the device only passes on.
        case externalApplication = 4
    }

    /// What the bootloader compares at each start (`BootValidation`).
    public enum BootValidation: Sendable, Hashable {
        case none, crc, sha256
        /// The bootloader checks a signature of the image. otaflash does not check it.
        case ecdsaP256
    }

    /// The version of the firmware, an integer; nil if the packet has none.
    public let firmwareVersion: UInt32?
    /// The version of the hardware (nRF52 chips: 52); nil if the packet has none.
    public let hardwareVersion: UInt32?
    /// The firmware ids of SoftDevices. One of them must be on the device.
    public let softDevices: [UInt32]
    public let type: FirmwareType
    /// The sizes of the parts of the image in bytes. The size of a part that the image does not contain is 0.
    public let softDeviceSize, bootloaderSize, applicationSize: UInt32
    /// The SHA-256 of the image. The packet has its bytes in the reverse order.
    public let digest: SHA256Digest
    /// True if the bootloader skips the checks of versions. Only a debug build of a bootloader accepts such a packet.
    public let isDebug: Bool
    public let bootValidation: [BootValidation]
    public let signature: NordicSignature?
    /// The bytes that the signature covers: the encoded `InitCommand`.
    public let signedBytes: [UInt8]
    /// The numbers of the fields of `InitCommand` that otaflash does not know, ascending. A vendor can add fields for its own bootloader.
    public let unknownFields: [UInt64]

    /// Parses an init packet.
    ///
    /// - Throws: `bad-init-packet`.
    init(_ bytes: [UInt8]) throws(PackageError) {
        let packet = try ProtobufMessage(bytes[...], "the init packet")
        try packet.expectOnly([1, 2])
        let plain = try packet.bytes(1)
        let signed = try packet.bytes(2)
        switch (plain, signed) {
        case (let command?, nil):
            signature = nil
            signedBytes = try Self.initCommand(of: command)
        case (nil, let signed?):
            let message = try ProtobufMessage(signed, "the signed command")
            try message.expectOnly([1, 2, 3])
            guard let command = try message.bytes(1), let type = try message.number(2),
                let signature = try message.bytes(3)
            else { throw message.malformed("lacks a command, a signature or its type") }
            self.signature = try NordicSignature(type: type, littleEndian: signature)
            signedBytes = try Self.initCommand(of: command)
        default: throw packet.malformed("has not exactly one command")
        }
        let command = try ProtobufMessage(signedBytes[...], "the init command", repeated: [10])
        firmwareVersion = try command.number(1)
        hardwareVersion = try command.number(2)
        softDevices = try command.packedNumbers(3)
        guard let type = FirmwareType(rawValue: try command.number(4) ?? 0) else {
            throw command.malformed("has an unknown type of firmware")
        }
        self.type = type
        softDeviceSize = try command.number(5) ?? 0
        bootloaderSize = try command.number(6) ?? 0
        applicationSize = try command.number(7) ?? 0
        guard let hash = try command.bytes(8) else { throw command.malformed("has no SHA-256 of the image") }
        digest = try Self.digest(in: hash)
        guard let debug = Self.bool(try command.number(9) ?? 0) else {
            throw command.malformed("has a debug flag that is not 0 or 1")
        }
        isDebug = debug
        bootValidation = try command.allBytes(10).map(Self.bootValidation)
        unknownFields = command.unknownFields(besides: Set(1...10))
    }

    private static func bool(_ number: UInt32) -> Bool? { number > 1 ? nil : number == 1 }

    /// Returns the encoded `InitCommand` of a `Command`.
    private static func initCommand(of bytes: ArraySlice<UInt8>) throws(PackageError) -> [UInt8] {
        let command = try ProtobufMessage(bytes, "the command")
        try command.expectOnly([1, 2])
        guard try command.number(1) == 1, let initCommand = try command.bytes(2) else {
            throw command.malformed("is not an init command")
        }
        return Array(initCommand)
    }

    private static func digest(in bytes: ArraySlice<UInt8>) throws(PackageError) -> SHA256Digest {
        let hash = try ProtobufMessage(bytes, "the hash")
        try hash.expectOnly([1, 2])
        guard try hash.number(1) == 3, let value = try hash.bytes(2),
            let digest = SHA256Digest(bytes: Array(value.reversed()))
        else { throw hash.malformed("is not a SHA-256 of 32 bytes") }
        return digest
    }

    private static func bootValidation(_ bytes: ArraySlice<UInt8>) throws(PackageError) -> BootValidation {
        let validation = try ProtobufMessage(bytes, "the boot validation")
        try validation.expectOnly([1, 2])
        let kinds: [BootValidation] = [.none, .crc, .sha256, .ecdsaP256]
        guard let type = try validation.number(1), try validation.bytes(2) != nil, type < kinds.count else {
            throw validation.malformed("has an unknown type or no bytes")
        }
        return kinds[Int(type)]
    }
}

/// The signature of an init packet.
public enum NordicSignature: Sendable, Hashable {
    /// ECDSA on P-256 over a SHA-256: r and s, 32 bytes each, big-endian.
    case ecdsaP256([UInt8])
    /// Another algorithm: the number of its `SignatureType` in Secure DFU (1: Ed25519).
    case unsupported(UInt32)

    /// Creates the signature of a secure init packet, which has r and s in little-endian byte order.
    ///
    /// - Throws: `bad-init-packet` for an ECDSA signature that does not have 64 bytes.
    fileprivate init(type: UInt32, littleEndian bytes: ArraySlice<UInt8>) throws(PackageError) {
        guard type == 0 else {
            self = .unsupported(type)
            return
        }
        guard bytes.count == 64 else {
            throw PackageError(
                .badInitPacket, "the signature of the init packet has \(bytes.count) bytes; expected 64")
        }
        self = .ecdsaP256(bytes.prefix(32).reversed() + bytes.suffix(32).reversed())
    }
}
