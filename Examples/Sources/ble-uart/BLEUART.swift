import ArgumentParser
import BlueZ
import ExampleSupport
import Glibc
import SystemPackage
import UARTProtocol

@main
struct BLEUART: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ble-uart", abstract: "Exchange texts and an image over the Nordic UART service.",
        discussion: """
            ble-uart serve             be a peripheral
            ble-uart                   list the devices in range, and connect to one
            ble-uart image photo.png   receive the image of a peripheral
            """,
        subcommands: [Connect.self, Image.self, Serve.self], defaultSubcommand: Connect.self)
}

/// Measures the time from its creation, as the sessions need it.
struct Stopwatch: Sendable {
    private let start = ContinuousClock.now

    var now: Duration { start.duration(to: .now) }

    /// Starts a task that calls `body` at this time.
    func call(at time: Duration, _ body: @escaping @Sendable () -> Void) -> Task<Void, Never> {
        Task { if (try? await Task.sleep(until: start + time, clock: .continuous)) != nil { body() } }
    }
}

/// Reads a whole file. Throws ``Failure`` if the file cannot be read.
func contents(of file: String, atMost limit: Int) throws -> [UInt8] {
    do {
        let descriptor = try FileDescriptor.open(FilePath(file), .readOnly)
        return try descriptor.closeAfter {
            var bytes: [UInt8] = []
            while bytes.count <= limit {
                let part = try [UInt8](unsafeUninitializedCapacity: 1 << 16) {
                    $1 = try descriptor.read(into: .init($0))
                }
                if part.isEmpty { break }
                bytes += part
            }
            return bytes
        }
    } catch let error as Errno { throw Failure("Cannot read \(file): \(error).") }
}

/// Writes a new file, or replaces a file. The file is complete when it gets its name.
func save(_ bytes: [UInt8], as file: String) throws {
    let part = FilePath(file + ".part")
    do {
        let descriptor = try FileDescriptor.open(
            part, .writeOnly, options: [.create, .truncate], permissions: [.ownerReadWrite, .groupRead, .otherRead])
        try descriptor.closeAfter { _ = try descriptor.writeAll(bytes) }
    } catch let error as Errno { throw Failure("Cannot write \(part): \(error).") }
    guard rename(part.string, file) == 0 else { throw Failure("Cannot write \(file): \(Errno(rawValue: errno)).") }
}
