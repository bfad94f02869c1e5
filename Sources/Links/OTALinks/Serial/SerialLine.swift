import DescriptorIO
import OTAEngine
package import OTAUpdate

/// Sends and receives packets over an open serial port, in a ``SerialFraming``.
///
/// If the framing is unknown, the line sends the first packets in different framings, until the device answers in one of them. Until then,
/// the session repeats a query that changes nothing on the device.
package actor SerialLine: ValuePipe {
    package nonisolated var unownedExecutor: UnownedSerialExecutor { descriptor.unownedExecutor }

    private let descriptor: OpenDescriptor
    private let name: String
    private var decoder: SerialDecoder
    /// The framings of the next packets, if the framing is unknown.
    private var trials: [SerialFraming]
    /// The framing of the last packet, if the framing is unknown.
    private var tried: SerialFraming?
    private var packets: [[UInt8]] = []

    /// Takes ownership of the port. The port must be a terminal in raw mode.
    ///
    /// - Parameters:
    ///   - framing: the framing of the device; nil: the line detects the framing.
    ///   - expected: the framing that the line tries first, if it detects the framing.
    ///   - release: releases the locks of the port. `release` runs immediately before the port is closed.
    /// - Throws: `unavailable` if a system call fails.
    package init(
        _ port: CInt, name: String, framing: SerialFraming?, expected: SerialFraming? = nil,
        release: @escaping @Sendable (CInt) -> Void = { _ in }
    ) throws(LinkError) {
        do throws(DescriptorError) {
            descriptor = try OpenDescriptor(adopting: port, on: LoopThread(), release: release)
        } catch {
            throw LinkError(.unavailable, "\(name): \(error)")
        }
        self.name = name
        decoder = SerialDecoder(framing)
        trials = expected.map { Array(repeating: $0, count: Self.expectedTrials) } ?? []
        trials += Self.order
    }

    /// The framing of the device; nil if it is still unknown.
    package var framing: SerialFraming? { decoder.framing }

    /// The number of packets in the framing of the last link, before other framings are tried. The device may restart in this time.
    private static let expectedTrials = 8
    /// The framings of the packets if no framing is expected.
    ///
    /// A console loses a query more often than other lines, so the second packet repeats its framing. `raw` is last: text makes a device
    /// with this framing wait for a long packet, and it discards this packet after about 3 s without a byte (observed with Zephyr 4.4 and
    /// MCUboot). SMP repeats a query after 1 s, 2 s and 4 s, so the line is quiet for 4 s before the packet with `raw`.
    private static let order: [SerialFraming] = [.console, .console, .rawCOBS, .raw]

    /// Returns the bytes to send for a packet; nil if the packet is too long.
    private func frame(carrying packet: [UInt8]) -> [UInt8]? {
        if let framing = decoder.framing { return framing.frame(carrying: packet) }
        let framing = trials.removeFirst()
        trials.append(framing)
        // An earlier packet in another framing may be an incomplete line or frame for the device. The first byte ends it. A first packet
        // has no such byte: after a line feed, Zephyr's shell reads the frame as input of a user.
        defer { tried = framing }
        let separator: [UInt8] =
            switch framing {
            case _ where tried == nil || tried == framing: []
            case .console: [ConsoleFraming.lineFeed]
            case .rawCOBS: [0]
            case .raw: []
            }
        return framing.frame(carrying: packet).map { separator + $0 }
    }

    package func send(_ value: [UInt8]) async throws(LinkError) {
        guard let frame = frame(carrying: value) else {
            throw LinkError(
                .refused,
                "the packet has \(value.count) bytes; the limit for a serial line is \(ConsoleFraming.longestPacket)")
        }
        do throws(DescriptorError) { try await descriptor.write(frame) } catch { throw lost(error) }
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
