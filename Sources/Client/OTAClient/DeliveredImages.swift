import Glibc
import OTAFirmware
import OTASigning
import OTAUpdate
import SystemPackage

/// The images that pushes from this computer have installed in the last 24 hours, although the devices never list them (docs/smp.md, "An
/// image that is never listed"). A repeated push does not send them again.
///
/// The entries are lines of a file in the state folder. If the file is lost, a repeated push sends the images again, which is harmless.
package struct DeliveredImages: Sendable, Equatable {
    private struct Entry: Sendable, Equatable {
        /// Unix time in seconds.
        let time: Int
        let number: Int
        let digest: [UInt8]
        let address: String
    }

    /// Afterwards, another device may have the address.
    package static let validity = 24 * 60 * 60
    private static let fileName = "delivered-images"
    private static let longestFile = 1 << 20

    private var entries: [Entry] = []

    /// Reads the entries of the last 24 hours. Ignores malformed lines.
    ///
    /// - Parameter now: Unix time in seconds.
    package init(parsing text: String, at now: Int) {
        for line in text.split(separator: "\n") {
            let fields = line.split(separator: " ", maxSplits: 3)
            guard fields.count == 4, let time = Int(fields[0]), let number = Int(fields[1]),
                let digest = Hex.decode(String(fields[2])), digest.count == 32,
                time <= now, time > now - Self.validity
            else { continue }
            entries.append(Entry(time: time, number: number, digest: digest, address: String(fields[3])))
        }
    }

    /// The SHA-256 of the file of each image that a push has installed last on the device, by image number.
    package func images(of address: String) -> [Int: [UInt8]] {
        Dictionary(entries.filter { $0.address == address }.map { ($0.number, $0.digest) }) { _, last in last }
    }

    package mutating func add(_ digest: [UInt8], number: Int, address: String, at now: Int) {
        entries.removeAll { ($0.address, $0.number) == (address, number) }
        entries.append(Entry(time: now, number: number, digest: digest, address: address))
    }

    package var text: String {
        entries.map { "\($0.time) \($0.number) \(Hex.encode($0.digest)) \($0.address)\n" }.joined()
    }

    // MARK: The file

    /// Reads the file in the state folder. The result has no entries if the file does not exist or cannot be read.
    static func load(at now: Int = time(nil)) -> DeliveredImages {
        guard let path = try? Environment.stateFolder()?.appending(fileName),
            let file = try? FileDescriptor.open(path, .readOnly, options: [.noFollow, .closeOnExec, .nonBlocking])
        else { return DeliveredImages(parsing: "", at: now) }
        defer { try? file.close() }
        var bytes = [UInt8](repeating: 0, count: longestFile)
        let count = bytes.withUnsafeMutableBytes { (try? file.read(fromAbsoluteOffset: 0, into: $0)) ?? 0 }
        return DeliveredImages(parsing: String(decoding: bytes[..<count], as: UTF8.self), at: now)
    }

    /// Replaces the file in the state folder. A failure is ignored: the next push then sends the images again.
    func save() {
        guard let folder = try? Environment.stateFolder() else { return }
        do {
            try Folder.create(folder)
            let file = try OutputFile(folder.appending(Self.fileName), replaces: true, permissions: .ownerReadWrite)
            try Array(text.utf8).withUnsafeBytes { try file.write($0, at: 0) }
            try file.commit()
        } catch {}
    }
}

extension DeliveredImages {
    /// Records the images of a push that the device does not list, after a push with success.
    ///
    /// The address of a serial port is not recorded, because the next device at this port may be another one.
    static func record(_ update: VerifiedUpdate, _ result: UpdateResult) {
        guard case .images(let images) = update, result.report.outcome == .confirmed,
            !result.address.hasPrefix("serial:")
        else { return }
        let now = time(nil)
        var delivered = load(at: now)
        let before = delivered
        for image in images where result.report.unlistedImages.contains(Int(image.number)) {
            delivered.add(image.image.fileDigest.bytes, number: Int(image.number), address: result.address, at: now)
        }
        if delivered != before { delivered.save() }
    }
}
