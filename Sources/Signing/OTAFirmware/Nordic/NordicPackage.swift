/// A package for Nordic DFU: images, and an init packet for each of them. The digests and signatures are not verified.
///
/// `nrfutil pkg generate` (Secure DFU) and `adafruit-nrfutil dfu genpkg` (Legacy DFU) create such packages.
public struct NordicPackage: Sendable {
    /// The protocol that a device needs to install the package.
    public enum DFUProtocol: String, Sendable {
        case legacy = "nordic-legacy-dfu"
        case secure = "nordic-secure-dfu"

        /// The name of the protocol in messages.
        public var title: String { self == .legacy ? "Nordic Legacy DFU" : "Nordic Secure DFU" }
    }

    public let dfuProtocol: DFUProtocol
    /// The images, in the order in which a device installs them. The list is not empty, and each part occurs at most once.
    public let sections: [NordicSection]

    /// - Throws: `bad-package-manifest` if there is no section.
    package init(_ dfuProtocol: DFUProtocol, _ sections: [NordicSection]) throws(PackageError) {
        guard !sections.isEmpty else { throw PackageError(.badManifest, "its manifest.json lists no image") }
        self.dfuProtocol = dfuProtocol
        self.sections = sections.sorted { $0.part.order < $1.part.order }
    }
}

/// An image of a Nordic DFU package with its init packet.
public struct NordicSection: Sendable {
    /// The part of the device's software that the image replaces. The raw values are the names in `manifest.json`.
    public enum Part: String, Sendable, CaseIterable {
        case softDeviceBootloader = "softdevice_bootloader"
        case softDevice = "softdevice"
        case bootloader
        case application

        fileprivate var order: Int { Self.allCases.firstIndex(of: self) ?? 0 }

        /// The name of the part in messages.
        public var title: String {
            switch self {
            case .softDeviceBootloader: "SoftDevice and bootloader"
            case .softDevice: "SoftDevice"
            case .bootloader: "bootloader"
            case .application: "application"
            }
        }
    }

    public enum InitPacket: Sendable, Hashable {
        case legacy(LegacyInitPacket)
        case secure(SecureInitPacket)
    }

    /// The sizes in `manifest.json`, in bytes. Nil: the manifest does not list the size.
    package struct ListedSizes {
        let softDevice, bootloader: UInt32?

        package init(softDevice: UInt32?, bootloader: UInt32?) {
            self.softDevice = softDevice
            self.bootloader = bootloader
        }
    }

    /// The maximum length of an init packet in bytes. Nordic's bootloaders accept at most 512 bytes.
    package static let longestInitPacket = 4096

    public let part: Part
    /// The name of the image's file in the archive.
    public let name: String
    public let image: [UInt8]
    public let initPacket: InitPacket
    /// The sizes of SoftDevice and bootloader in an image that contains both; otherwise nil. In a package for Legacy DFU, they are from
    /// `manifest.json`, so no signature covers them.
    public let bothSizes: (softDevice: UInt32, bootloader: UInt32)?

    /// Parses an init packet, and compares its sizes with the image and with the manifest.
    ///
    /// - Throws: `bad-init-packet`; `package-file-mismatch` if two sizes, or the type and the part, contradict each other.
    package init(
        _ part: Part, as dfuProtocol: NordicPackage.DFUProtocol, image: [UInt8], named name: String,
        initPacket bytes: [UInt8], sizes: ListedSizes
    ) throws(PackageError) {
        (self.part, self.image, self.name) = (part, image, name)
        guard !image.isEmpty else { throw PackageError(.fileMismatch, "\(name) is empty") }
        guard bytes.count <= Self.longestInitPacket else {
            throw PackageError(
                .badInitPacket,
                "the init packet of \(name) has \(bytes.count) bytes; the limit is \(Self.longestInitPacket)")
        }
        switch dfuProtocol {
        case .legacy:
            let packet = try LegacyInitPacket(bytes)
            initPacket = .legacy(packet)
            bothSizes = try Self.sizes(of: part, packet, sizes, image.count, name)
        case .secure:
            let packet = try SecureInitPacket(bytes)
            initPacket = .secure(packet)
            bothSizes = try Self.sizes(of: part, packet, sizes, image.count, name)
        }
    }

    private static func sizes(
        of part: Part, _ packet: LegacyInitPacket, _ listed: ListedSizes, _ count: Int, _ name: String
    ) throws(PackageError) -> (softDevice: UInt32, bootloader: UInt32)? {
        if let length = packet.imageLength, length != count {
            throw PackageError(
                .fileMismatch, "\(name) has \(count) bytes, but its init packet is for \(length) bytes")
        }
        guard part == .softDeviceBootloader else { return nil }
        guard let softDevice = listed.softDevice, let bootloader = listed.bootloader, softDevice > 0, bootloader > 0,
            UInt64(softDevice) + UInt64(bootloader) == count
        else {
            throw PackageError(
                .fileMismatch,
                "\(name) has \(count) bytes, but its manifest.json lists "
                    + "\(describe(listed.softDevice)) for the SoftDevice and \(describe(listed.bootloader)) for the bootloader"
            )
        }
        return (softDevice, bootloader)
    }

    private static func sizes(
        of part: Part, _ packet: SecureInitPacket, _ listed: ListedSizes, _ count: Int, _ name: String
    ) throws(PackageError) -> (softDevice: UInt32, bootloader: UInt32)? {
        let types: [SecureInitPacket.FirmwareType] =
            switch part {
            case .softDeviceBootloader: [.softDeviceBootloader]
            case .softDevice: [.softDevice]
            case .bootloader: [.bootloader]
            case .application: [.application, .externalApplication]
            }
        guard types.contains(packet.type) else {
            throw PackageError(
                .fileMismatch, "manifest.json lists \(name) as \(part.title), but its init packet is for another part")
        }
        let (softDevice, bootloader) = (packet.softDeviceSize, packet.bootloaderSize)
        let expected = (
            softDevice: part == .softDeviceBootloader || part == .softDevice,
            bootloader: part == .softDeviceBootloader || part == .bootloader, application: part == .application
        )
        guard
            UInt64(softDevice) + UInt64(bootloader) + UInt64(packet.applicationSize) == count,
            (softDevice > 0) == expected.softDevice, (bootloader > 0) == expected.bootloader,
            (packet.applicationSize > 0) == expected.application
        else {
            throw PackageError(
                .fileMismatch,
                "\(name) has \(count) bytes, but its init packet is for \(softDevice) bytes of a SoftDevice, \(bootloader) of a "
                    + "bootloader and \(packet.applicationSize) of an application")
        }
        guard part == .softDeviceBootloader else { return nil }
        guard listed.softDevice ?? softDevice == softDevice, listed.bootloader ?? bootloader == bootloader else {
            throw PackageError(
                .fileMismatch, "the sizes of \(name) in manifest.json differ from those in its init packet")
        }
        return (softDevice, bootloader)
    }

    private static func describe(_ size: UInt32?) -> String { size.map { "\($0) bytes" } ?? "no size" }
}

extension NordicSection {
    /// The SHA-256 of the image in the init packet; nil if the packet has a CRC-16.
    public var digest: SHA256Digest? {
        switch initPacket {
        case .legacy(let packet): packet.digest
        case .secure(let packet): packet.digest
        }
    }

    /// The CRC-16 of the image in the init packet; nil if the packet has a SHA-256.
    public var checksum: UInt16? { if case .legacy(let packet) = initPacket { packet.checksum } else { nil } }

    /// The signature of the init packet; nil if the packet is not signed.
    public var signature: NordicSignature? {
        switch initPacket {
        case .legacy(let packet): packet.signature
        case .secure(let packet): packet.signature
        }
    }

    /// The bytes that `signature` covers.
    public var signedBytes: [UInt8] {
        switch initPacket {
        case .legacy(let packet): packet.signedBytes
        case .secure(let packet): packet.signedBytes
        }
    }

    /// The version of the hardware (Secure DFU) or the revision of the device (Legacy DFU) that the image is for; nil if the packet has
    /// none. A legacy packet for any revision has 0xFFFF.
    public var hardware: UInt32? {
        switch initPacket {
        case .legacy(let packet): packet.deviceRevision == .max ? nil : UInt32(packet.deviceRevision)
        case .secure(let packet): packet.hardwareVersion
        }
    }
}
