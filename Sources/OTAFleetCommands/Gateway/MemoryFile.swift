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
