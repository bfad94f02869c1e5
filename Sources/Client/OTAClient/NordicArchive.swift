import OTAArchive
public import OTAFirmware
import OTASigning

/// Reads a Nordic DFU package: a zip archive with a `manifest.json`, and for each part of the device's software an image (`.bin`) and an
/// init packet (`.dat`).
///
/// The source of the manifest's format is `manifest.py` in nrfutil 6.1.7 and in adafruit-nrfutil 0.5.3.
public enum NordicArchive {
    /// The member that states the version of the format. Only a package for Legacy DFU has it.
    private static let legacyMark = "dfu_version"

    /// Reads the package in a zip archive. Returns nil if the archive does not have the manifest of a Nordic DFU package.
    ///
    /// Only the init packets are signed. The manifest assigns each file to a part of the device's software, and the init packet must be for
    /// the same part. For Legacy DFU, only the manifest names the part.
    ///
    /// The member `manifest` must be the only one: with the member `files`, nRF Connect Device Manager would send other files of the archive.
    ///
    /// - Throws: `ZipError`; `PackageError`, also for a manifest that is not JSON.
    public static func package(in bytes: [UInt8]) throws -> NordicPackage? {
        guard let archive = try PackageArchive(bytes), let manifest = archive.manifest["manifest"] else { return nil }
        guard archive.manifest.members?.count == 1, let members = manifest.members else {
            throw PackageError(
                .badManifest, "its manifest.json must have only one member, 'manifest', which lists the parts")
        }
        let isLegacy = members.contains { $0.name == legacyMark || $0.value["init_packet_data"] != nil }
        let dfuProtocol: NordicPackage.DFUProtocol = isLegacy ? .legacy : .secure
        var used: Set<String> = []
        let sections = try members.filter { $0.name != legacyMark }.map { member in
            guard let part = NordicSection.Part(rawValue: member.name) else {
                throw PackageError(
                    .badManifest, "its manifest.json lists the unknown part '\(member.name.escapingUnprintable)'")
            }
            let image = try contents(
                "bin_file", of: member, in: archive, (code: .fileMismatch, size: largestImage), &used)
            let packet = try contents(
                "dat_file", of: member, in: archive, (code: .badInitPacket, size: NordicSection.longestInitPacket),
                &used)
            return try NordicSection(
                part, as: dfuProtocol, image: image.bytes, named: image.name, initPacket: packet.bytes,
                sizes: sizes(of: member, dfuProtocol))
        }
        try archive.checkNames(listed: Array(used))
        return try NordicPackage(dfuProtocol, sections)
    }

    /// The maximum size of an image in bytes. The flash memory of the largest nRF52 and nRF53 chips has 1 MiB, and some boards add an external
    /// memory for an application.
    private static let largestImage = 16 << 20

    /// Reads the package in a bundle.
    ///
    /// - Throws: `bad-package-manifest` if the image of the bundle is not a Nordic DFU package; the errors of `package(in:)`.
    package static func package(of bundle: SignedBundle) throws -> NordicPackage {
        guard let package = try package(in: bundle.image) else {
            throw PackageError(.badManifest, "the image in the bundle is not a Nordic DFU package")
        }
        return package
    }

    /// Unpacks the file that a member of a section names.
    ///
    /// - Parameters:
    ///   - limit: the maximum unpacked size in bytes, and the error for a larger file.
    ///   - used: the names of the files that other members name. Each file has one use: otherwise a small manifest could fill the memory.
    private static func contents(
        _ key: String, of section: JSON.Member, in archive: PackageArchive,
        _ limit: (code: PackageError.Code, size: Int), _ used: inout Set<String>
    ) throws -> (name: String, bytes: [UInt8]) {
        guard let name = section.value[key]?.string else {
            throw PackageError(.badManifest, "its manifest.json lists no \(key) for \(section.name)")
        }
        let entry = try archive.entry(name)
        guard used.insert(entry.name).inserted else {
            throw PackageError(.badManifest, "its manifest.json lists \(entry.name) twice")
        }
        guard entry.size <= limit.size else {
            throw PackageError(limit.code, "\(entry.name) has \(entry.size) bytes; the limit is \(limit.size)")
        }
        return (entry.name, try archive.contents(of: entry))
    }

    /// Returns the sizes of SoftDevice and bootloader. A package for Legacy DFU lists them in the section, and one for Secure DFU in its
    /// metadata. In the other place, only other programs would read them.
    ///
    /// - Throws: `bad-package-manifest` for sizes in the other place, and for a size that is not a number of 32 bits.
    private static func sizes(
        of section: JSON.Member, _ dfuProtocol: NordicPackage.DFUProtocol
    ) throws(PackageError) -> NordicSection.ListedSizes {
        let metadata = section.value["info_read_only_metadata"]
        let place = dfuProtocol == .legacy ? section.value : metadata
        let other = dfuProtocol == .legacy ? metadata : section.value
        func size(_ name: String) throws(PackageError) -> UInt32? {
            guard other?[name] == nil else {
                throw PackageError(
                    .badManifest,
                    "its manifest.json lists \(name) of \(section.name) in the place for another protocol")
            }
            guard let value = place?[name] else { return nil }
            guard case .number(let text) = value, let size = UInt32(text) else {
                throw PackageError(.badManifest, "its manifest.json lists a \(name) that is not a number of bytes")
            }
            return size
        }
        return NordicSection.ListedSizes(softDevice: try size("sd_size"), bootloader: try size("bl_size"))
    }
}

extension PackageError {
    /// The refusal of a package that the user wants to send to a device.
    ///
    /// - Parameter extraction: the command that extracts the package from a bundle; nil if the file is a package.
    package static func notPushed(_ package: NordicPackage, extraction: String? = nil) -> PackageError {
        let tool = package.dfuProtocol == .legacy ? "adafruit-nrfutil" : "nrfutil"
        let send = "send it with nRF Device Firmware Update or \(tool)"
        return PackageError(
            .notPushed,
            "\(extraction == nil ? "it is" : "it contains") a package for \(package.dfuProtocol.title), which otaflash does not send yet",
            hint: extraction.map { "extract the package (\($0)), and \(send)" }
                ?? "verify it (otaflash verify --help), and \(send)")
    }
}
