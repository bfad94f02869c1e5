import OTAFirmware
import OTASMP
import OTAUpdate

/// The device's end of SMP, from one start to the next, as Zephyr's server was seen to be: packets wait in a few buffers and
/// are answered one after the other.
///
/// The numbers of the protocol stand here once more: with the host it shares the frame's header and scalars of CBOR, which
/// frames made by others pin.
final class SMPServer {
    /// What a handler answers.
    typealias Fields = [IndefiniteCBOR.Field]

    struct Packet {
        var connection: UInt16
        var bytes: [UInt8]
        var arrived: Duration
    }

    let configuration: VirtualSMPConfiguration
    let slots: SMPSlots
    var reception: SMPReception?
    /// It restarts then.
    var restartsAt: Duration?
    private(set) var waiting: [Packet] = []
    private var inlet: SMPInlet
    /// Nothing is answered before this: the flash is busy.
    var busyUntil = Duration.zero
    /// The packet that was answered last, and its answer, keep their buffers until then, and the next one waits.
    private var releasedAt = Duration.zero
    private(set) var packets = 0
    private(set) var longestQueue = 0
    /// Values that began a packet and found no buffer.
    private(set) var overflows = 0

    init(_ configuration: VirtualSMPConfiguration, _ slots: SMPSlots) {
        self.configuration = configuration
        self.slots = slots
        inlet = SMPInlet(reassembles: configuration.reassembles, bufferSize: configuration.bufferSize)
    }

    /// When it wants to be asked for answers; nil: nobody waits for one.
    var due: Duration? {
        let answer = waiting.first.map { max(max($0.arrived, releasedAt) + configuration.answerDelay, busyUntil) }
        return [answer, restartsAt].compactMap { $0 }.min()
    }

    func write(_ value: [UInt8], from connection: UInt16, at now: Duration) {
        let isFull = buffersInUse(at: now) >= configuration.bufferCount
        // Nobody is told.
        if isFull, !inlet.isInMidPacket { overflows += 1 }
        guard let bytes = inlet.take(value, hasRoom: !isFull) else { return }
        waiting.append(Packet(connection: connection, bytes: bytes, arrived: now))
        longestQueue = max(longestQueue, waiting.count)
    }

    /// By packets that wait, by one that is not whole, by the last one that was answered and by its answer.
    private func buffersInUse(at now: Duration) -> Int {
        waiting.count + (inlet.isInMidPacket ? 1 : 0) + (now < releasedAt ? 2 : 0)
    }

    /// What was half received is forgotten.
    func disconnected(_ connection: UInt16) {
        waiting.removeAll { $0.connection == connection }
        inlet.reset()
    }

    /// The next answer that is due; nil: none is, or the packet gets none.
    func answer(at now: Duration) throws(FlashError) -> (connection: UInt16, bytes: [UInt8])? {
        guard let packet = waiting.first else { return nil }
        // With a packet in each buffer none is left for the answer's data.
        let isFull = buffersInUse(at: now) >= configuration.bufferCount
        waiting.removeFirst()
        packets += 1
        releasedAt = now + configuration.releaseDelay
        guard let header = SMPQuestion(packet.bytes) else { return nil }
        let fields: Fields
        do throws(SMPRefusal) {
            fields = isFull ? try refuse(.general(2)) : try handle(header, at: now)
        } catch {
            if case .flash(let failure) = error { throw failure }
            return (
                packet.connection,
                header.answer(error.fields(version: version(of: header)), version: version(of: header))
            )
        }
        return (packet.connection, header.answer(fields, version: version(of: header)))
    }

    private func refuse(_ refusal: SMPRefusal) throws(SMPRefusal) -> Fields { throw refusal }

    private func version(of question: SMPQuestion) -> UInt8 {
        configuration.knowsFirstVersionOnly ? 0 : min(question.version, 1)
    }

    private func handle(_ question: SMPQuestion, at now: Duration) throws(SMPRefusal) -> Fields {
        if question.version > 1, !configuration.knowsFirstVersionOnly { throw .general(13) }
        guard question.isWhole else { throw .general(9) }
        guard let map = question.map else { throw .general(3) }
        return switch (question.group, question.command, question.operation) {
        case (0, 0, _): try echo(map)
        case (0, 5, 2): restart(at: now)
        case (0, 6, 0) where configuration.reportsParameters:
            [
                ("buf_size", .scalar(CBORValue(configuration.bufferSize))),
                ("buf_count", .scalar(CBORValue(configuration.bufferCount))),
            ]
        case (0, 7, 0) where configuration.reportsBoard: try system(map)
        case (0, 8, 0) where configuration.bootloaderMode != nil: try bootloader(map)
        case (1, 0, 0): list
        case (1, 0, 2) where configuration.marksImages: try setState(map)
        case (1, 1, 2): try upload(map, at: now)
        case (1, 5, 2): try erase(map)
        case (1, 6, 0) where configuration.reportsSlots: slotSizes
        default: throw .general(8)
        }
    }
}
