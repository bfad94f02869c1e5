import DescriptorIO
import OTATransport
package import OTAUpdate

/// Sends and receives packets over an open serial port, in the format of ``ConsoleFraming``.
package actor SerialLine: ValuePipe {
    package nonisolated var unownedExecutor: UnownedSerialExecutor { descriptor.unownedExecutor }

    private let descriptor: OpenDescriptor
    private let name: String
    private var decoder = ConsoleDecoder()
    private var packets: [[UInt8]] = []

    /// Takes ownership of the port. The port must be a terminal in raw mode.
    ///
    /// - Parameter release: releases the locks of the port. `release` runs immediately before the port is closed.
    /// - Throws: `unavailable` if a system call fails.
    package init(
        _ port: CInt, name: String, release: @escaping @Sendable (CInt) -> Void = { _ in }
    ) throws(LinkError) {
        do throws(DescriptorError) {
            descriptor = try OpenDescriptor(adopting: port, on: LoopThread(), release: release)
        } catch {
            throw LinkError(.unavailable, "\(name): \(error)")
        }
        self.name = name
    }

    package func send(_ value: [UInt8]) async throws(LinkError) {
        guard let lines = ConsoleFraming.lines(carrying: value) else {
            throw LinkError(
                .refused,
                "the packet has \(value.count) bytes; the limit for a serial line is \(ConsoleFraming.longestPacket)")
        }
        do throws(DescriptorError) { try await descriptor.write(lines) } catch { throw lost(error) }
    }

    package func receive() async throws(LinkError) -> [UInt8] {
        while packets.isEmpty {
            do throws(DescriptorError) {
                let bytes = try await descriptor.read()
                guard !bytes.isEmpty else { throw .closed }
                packets = decoder.decode(bytes)
            } catch {
                throw lost(error)
            }
        }
        return packets.removeFirst()
    }

    package func close() async { await descriptor.close() }

    /// Converts an error of the port to `LinkError.lost`. If the cable is unplugged, some drivers report an error (`system`), and others
    /// report the end of the data (`closed`).
    private func lost(_ error: DescriptorError) -> LinkError {
        switch error {
        case .cancelled: LinkError(.lost, error.description)
        case .closed, .system: LinkError(.lost, "lost the serial port \(name): \(error)")
        }
    }
}
