import DescriptorIO
import OTAClient
import OTASigning
import SystemPackage

/// The last lines of the log of a push without `--log`. They are in memory. After a failure, they become a file in the state folder.
///
/// The log of each device has a limit of its own, so that a failure at the start of a push to many devices is still in the log at its end.
package final class RecentLog: LogOutput {
    package init() {}

    /// The file in the state folder. The next failed push replaces it.
    static let fileName: FilePath.Component = "failed-push.log"
    /// The limit of the text of all devices, and of one device, in bytes.
    private static let limit = 2 << 20
    private static let partLimit = 256 << 10
    /// The number of the first lines of the command that always remain: the arguments, the versions and the environment.
    private static let headLines = 8

    /// The lines about one device, or about no device.
    private struct Part {
        private(set) var entries: [(number: Int, entry: LogEntry)] = []
        private var bytes = 0

        mutating func add(_ entry: LogEntry, _ number: Int, limit: Int, keepsHead: Bool) {
            entries.append((number, entry))
            bytes += Self.size(entry)
            // The half of the lines is removed at once, because the removal of one line moves all later ones.
            if bytes > 2 * limit { trim(to: limit, keepsHead: keepsHead) }
        }

        mutating func trim(to limit: Int, keepsHead: Bool) {
            let head = keepsHead ? min(RecentLog.headLines, entries.count) : 0
            var end = head
            while bytes > limit, end < entries.count {
                bytes -= Self.size(entries[end].entry)
                end += 1
            }
            entries.removeSubrange(head..<end)
        }

        /// The approximate length of the line in the file.
        private static func size(_ entry: LogEntry) -> Int {
            entry.text.utf8.count + (entry.device?.utf8.count ?? 0) + 45
        }
    }

    private struct Contents {
        var parts: [String?: Part] = [:]
        var number = 0
        var limit: Int { min(RecentLog.partLimit, RecentLog.limit / max(1, parts.count)) }
    }

    private let contents = Guarded(Contents())

    package func write(_ entry: LogEntry) {
        contents.with {
            $0.number += 1
            $0.parts[entry.device, default: Part()].add(
                entry, $0.number, limit: $0.limit, keepsHead: entry.device == nil)
        }
    }

    /// Removes the lines about a device that was updated.
    package func remove(_ device: String) { contents.with { $0.parts[device] = nil } }

    /// Writes the lines to the file in the state folder, and adds the file to the hints. Only the owner can read the file.
    ///
    /// If the file cannot be written, the failure does not change: it is more important than its log.
    func save(after failure: inout Failure) {
        write(LogEntry(level: "error", device: nil, text: "\(failure.code): \(failure.message)"))
        failure.hints.forEach { write(LogEntry(level: "hint", device: nil, text: $0)) }
        write(LogEntry(level: "exit", device: nil, text: "\(failure.exit.rawValue)"))
        guard let path = save() else { return }
        failure.hints.append("for a bug report, attach the log of this push: \(Shell.quoted(path.string))")
    }

    private func save() -> FilePath? {
        guard let folder = try? Environment.stateFolder() else { return nil }
        let path = folder.appending(Self.fileName)
        do {
            try Folder.create(folder)
            let file = try OutputFile(path, replaces: true, permissions: .ownerReadWrite)
            try file.write(Array((LogFile.heading + text).utf8))
            try file.commit()
            return path
        } catch {
            return nil
        }
    }

    /// The lines in their order. All devices together have at most 2 MiB.
    package var text: String {
        let contents = contents.with { $0 }
        var entries: [(number: Int, entry: LogEntry)] = []
        for (device, part) in contents.parts {
            var part = part
            part.trim(to: contents.limit, keepsHead: device == nil)
            entries += part.entries
        }
        return entries.sorted { $0.number < $1.number }.map(\.entry.line).joined()
    }
}
