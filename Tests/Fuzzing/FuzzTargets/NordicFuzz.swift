import OTAClient
import OTAFirmware

/// Reads the input as a Nordic DFU package, as an init packet of both protocols, and as the manifest of an archive with two images.
///
/// Each accepted part must have the sizes that its init packet and the manifest state.
enum NordicFuzz {
    private static let image = [UInt8](repeating: 7, count: 516)
    /// The init packet of an unsigned application of 516 bytes, as nrfutil writes it.
    private static let initPacket: [UInt8] =
        [0x0A, 0x2D, 0x08, 0x01, 0x12, 0x29, 0x38, 0x84, 0x04, 0x42, 0x24, 0x08, 0x03, 0x12, 0x20]
        + [UInt8](repeating: 1, count: 32)

    static func run(_ bytes: [UInt8]) -> String? {
        if let package = try? NordicArchive.package(in: bytes), let finding = finding(in: package) { return finding }
        for dfuProtocol in [NordicPackage.DFUProtocol.legacy, .secure] {
            for part in NordicSection.Part.allCases {
                let section = try? NordicSection(
                    part, as: dfuProtocol, image: image, named: "app.bin", initPacket: bytes,
                    sizes: .init(softDevice: 260, bootloader: 256))
                if let section, let finding = finding(in: section) { return finding }
            }
        }
        let legacy = [UInt8](repeating: 0, count: 12)
        let files = [
            FuzzArchive.File(name: "manifest.json", packed: bytes), FuzzArchive.File(name: "app.bin", packed: image),
            FuzzArchive.File(name: "app.dat", packed: initPacket), FuzzArchive.File(name: "boot.bin", packed: image),
            FuzzArchive.File(name: "boot.dat", packed: legacy),
        ]
        // The manifest must list all files of the archive.
        for count in [3, 5] {
            let archive = FuzzArchive.bytes(Array(files.prefix(count)))
            guard let package = try? NordicArchive.package(in: archive) else { continue }
            guard package.sections.count == (count - 1) / 2 else { return "a file that is not listed is accepted" }
            if let finding = finding(in: package) { return finding }
        }
        return nil
    }

    private static func finding(in package: NordicPackage) -> String? {
        if package.sections.isEmpty { return "a package has no image" }
        if Set(package.sections.map(\.part)).count < package.sections.count { return "a package has a part twice" }
        if Set(package.sections.map(\.name)).count < package.sections.count { return "a package has an image twice" }
        return package.sections.lazy.compactMap(finding(in:)).first
    }

    private static func finding(in section: NordicSection) -> String? {
        if section.image.isEmpty { return "an image is empty" }
        if let sizes = section.bothSizes {
            let sum = UInt64(sizes.softDevice) + UInt64(sizes.bootloader)
            if sum != section.image.count || sizes.softDevice == 0 || sizes.bootloader == 0 { return "wrong sizes" }
        } else if section.part == .softDeviceBootloader {
            return "an image of SoftDevice and bootloader has no sizes"
        }
        if (section.digest == nil) == (section.checksum == nil) { return "an init packet has not exactly one digest" }
        if case .ecdsaP256(let signature) = section.signature, signature.count != 64 || section.signedBytes.isEmpty {
            return "a signature covers nothing, or does not have 64 bytes"
        }
        return nil
    }
}
