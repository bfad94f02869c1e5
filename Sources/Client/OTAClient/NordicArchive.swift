import OTAArchive
public import OTAFirmware
import OTASigning

/// Reads a Nordic DFU package: a zip archive with a `manifest.json`, and for each part of the device's software an image (`.bin`) and an
/// init packet (`.dat`).
///
/// The source of the manifest's format is `manifest.py` in nrfutil 6.1.7 and in adafruit-nrfutil 0.5.3.
public enum NordicArchive {
    private static let manifestName = "manifest.json"
    private static let longestManifest = 1 << 20
    /// The member that states the version of the format. Only a package for Legacy DFU has it.
    private static let legacyMark = "dfu_version"

    /// Reads the package in a zip archive. Returns nil if the archive does not have the manifest of a Nordic DFU package.
    ///
    /// Only the init packets are signed. The manifest assigns each file to a part of the device's software, and the init packet must be for
    /// the same part. For Legacy DFU, only the manifest names the part.
    ///
    /// - Throws: `ZipError`; `PackageError`.
    public static func package(in bytes: [UInt8]) throws -> NordicPackage? {
        let archive = try ZipArchive(bytes)
        guard let entry = archive[manifestName], entry.size <= longestManifest,
            let json = try? JSON(parsing: archive.contents(of: entry)[...]), let members = json["manifest"]?.members
        else { return nil }
        try checkNames(in: archive)
        let isLegacy = members.contains { $0.name == legacyMark || $0.value["init_packet_data"] != nil }
        let dfuProtocol: NordicPackage.DFUProtocol = isLegacy ? .legacy : .secure
        var used: Set<String> = []
        let sections = try members.filter { $0.name != legacyMark }.map { member in
            guard let part = NordicSection.Part(rawValue: member.name) else {
                throw PackageError(
                    .badManifest, "its manifest.json lists the unknown part '\(member.name.escapingUnprintable)'")
            }
            let image = try contents("bin_file", of: member, in: archive, at: ZipArchive.maximumLength, &used)
            let packet = try contents("dat_file", of: member, in: archive, at: NordicSection.longestInitPacket, &used)
            return try NordicSection(
                part, as: dfuProtocol, image: image.bytes, named: image.name, initPacket: packet.bytes,
                sizes: sizes(in: member.value["info_read_only_metadata"] ?? member.value))
        }
        return try NordicPackage(dfuProtocol, sections)
    }

    /// Reads the package in a bundle.
    ///
    /// - Throws: `bad-package-manifest` if the image of the bundle is not a Nordic DFU package; the errors of `package(in:)`.
    package static func package(of bundle: SignedBundle) throws -> NordicPackage {
        guard let package = try package(in: bundle.image) else {
            throw PackageError(.badManifest, "the image in the bundle is not a Nordic DFU package")
        }
        return package
    }

    /// otaflash writes no file of a package. But a bundle passes the package on to programs that unpack it.
    private static func checkNames(in archive: ZipArchive) throws(PackageError) {
        for name in archive.entries.map(\.name) {
            let components = name.split(separator: "/", omittingEmptySubsequences: false)
            guard !name.hasPrefix("/"), !name.contains("\\"), !components.contains("..") else {
                throw PackageError(.unsafeName, "the name of its entry \(name) is not below the folder of the package")
            }
        }
    }

    /// Unpacks the file that a member of a section names.
    ///
    /// - Parameters:
    ///   - limit: the maximum unpacked size in bytes.
    ///   - used: the names of the files that other members name. Each file has one use: otherwise a small manifest could fill the memory.
    private static func contents(
        _ key: String, of section: JSON.Member, in archive: ZipArchive, at limit: Int, _ used: inout Set<String>
    ) throws -> (name: String, bytes: [UInt8]) {
        guard let name = section.value[key]?.string else {
            throw PackageError(.badManifest, "its manifest.json lists no \(key) for \(section.name)")
        }
        guard let entry = archive[name] else {
            throw PackageError(
                .missingFile,
                "its manifest.json lists \(name.escapingUnprintable), which is not in the archive")
        }
        guard used.insert(entry.name).inserted else {
            throw PackageError(.badManifest, "its manifest.json lists \(entry.name) twice")
        }
        guard entry.size <= limit else {
            throw PackageError(.badInitPacket, "\(entry.name) has \(entry.size) bytes; the limit is \(limit)")
        }
        return (entry.name, try archive.contents(of: entry))
    }

    private static func sizes(in json: JSON) -> NordicSection.ListedSizes {
        func size(_ name: String) -> UInt32? {
            guard case .number(let text) = json[name] else { return nil }
            return UInt32(text)
        }
        return NordicSection.ListedSizes(softDevice: size("sd_size"), bootloader: size("bl_size"))
    }
}

extension PackageError {
    /// The refusal of a package that the user wants to send to a device.
    ///
    /// - Parameter what: the file in the message, such as `it`.
    package static func notPushed(_ package: NordicPackage, _ what: String) -> PackageError {
        PackageError(
            .notPushed, "\(what) is a package for \(package.dfuProtocol.title), and otaflash does not push it yet",
            hint: "verify it (otaflash verify --help), and send it with nRF Device Firmware Update or nrfutil")
    }
}
