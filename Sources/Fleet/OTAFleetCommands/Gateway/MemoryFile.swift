import OTAFleet
import OTASigning
import SystemPackage

/// The file with the memory of serials. It is replaced atomically, so that a killed process leaves the old or the new memory.
struct MemoryFile: Sendable {
    let path: FilePath

    /// Reads the memory. A file that does not exist is an empty memory.
    ///
    /// - Throws: `record-malformed` if the file is damaged. An empty memory would accept old records, so the file is not ignored.
    func read() throws -> SerialMemory {
        let file: FileDescriptor
        do {
            file = try FileDescriptor.open(path, .readOnly, options: [.closeOnExec, .noFollow])
        } catch Errno.noSuchFileOrDirectory {
            return SerialMemory()
        }
        return try file.closeAfter {
            var text: [UInt8] = []
            var piece = [UInt8](repeating: 0, count: 65_536)
            while case let count = try piece.withUnsafeMutableBytes({ try file.read(into: $0) }), count > 0 {
                text += piece[..<count]
            }
            do throws(FleetError) { return try SerialMemory(parsing: text) } catch {
                throw FleetError(
                    error.code, "\(path): \(error.context)",
                    hint: "restore the file from a copy; without it, this machine could accept old records")
            }
        }
    }

    /// Replaces the file, and waits until it is on the disk.
    func write(_ memory: SerialMemory) throws {
        let file = try OutputFile(path, replaces: true, permissions: .ownerReadWrite)
        try file.write(memory.encoded())
        try file.commit()
    }
}

/// The file with the identifiers of the last 16 runs of a gateway's process, one in each line, the newest at the end.
struct InstancesFile {
    private static let maximumInstances = 16

    let path: FilePath

    /// Adds the instance of this process. Returns the earlier instances.
    ///
    /// A line that is not an instance, or a file that cannot be read, is ignored. For the records of an unknown instance, a gateway waits
    /// as for the records of another gateway.
    func begin(_ instance: GatewayInstance) throws -> Set<GatewayInstance> {
        let earlier = ((try? text()) ?? []).split(separator: UInt8(ascii: "\n")).compactMap {
            GatewayInstance(String(decoding: $0, as: UTF8.self))
        }
        let file = try OutputFile(path, replaces: true, permissions: .ownerReadWrite)
        try file.write((earlier + [instance]).suffix(Self.maximumInstances).flatMap { Array("\($0.text)\n".utf8) })
        try file.commit()
        return Set(earlier)
    }

    private func text() throws -> [UInt8] {
        let file = try FileDescriptor.open(path, .readOnly, options: [.closeOnExec, .noFollow])
        return try file.closeAfter {
            try Array(unsafeUninitializedCapacity: 4096) { $1 = try file.read(into: UnsafeMutableRawBufferPointer($0)) }
        }
    }
}
