import OTAFirmware
import OTASMP
import OTAUpdate

/// The SMP server of a virtual device during one boot. The server has few buffers for waiting packets, and answers one packet at a time.
/// This is the observed behaviour of Zephyr's server.
///
/// The server and the host have separate copies of the protocol's constants, so that tests detect an error in one of the copies. The server
/// and the host share only the code that decodes CBOR and encodes CBOR scalars. Tests check the shared code against frames from
/// other implementations.
final class SMPServer {
    /// The fields of an answer.
    typealias Fields = [IndefiniteCBOR.Field]

    struct Packet {
        var connection: UInt16
        var bytes: [UInt8]
        var arrived: Duration
    }

    let configuration: VirtualSMPConfiguration
    let slots: SMPSlots
    var reception: SMPReception?
    /// The time of the scheduled restart; nil if no restart is scheduled.
    var restartsAt: Duration?
    private(set) var waiting: [Packet] = []
    private var reassembler: SMPReassembler
    /// The time until which the flash is busy. The server does not answer before this time.
    var busyUntil = Duration.zero
    /// The time until which the last request and its answer occupy their buffers. The next request waits until this time.
    private var releasedAt = Duration.zero
    private(set) var packets = 0
    private(set) var longestQueue = 0
    /// The number of values that the server dropped because no buffer was free for a new packet, since the boot.
    private(set) var overflows = 0
    var counters: SMPCounters
    /// The program of a device with one slot; nil: the device has two slots.
    let program: SMPProgram?
    /// The name for the loader, and its saved copy.
    var loaderName: (written: [UInt8], saved: [UInt8]?) = ([], nil)
    /// Whether the next boot starts the loader.
    private(set) var restartsIntoLoader = false

    /// - Parameter counters: the counters at the end of the last boot.
    init(
        _ configuration: VirtualSMPConfiguration, _ slots: SMPSlots, counters: SMPCounters, program: SMPProgram? = nil
    ) {
        self.program = program
        self.configuration = configuration
        self.slots = slots
        self.counters = counters
        reassembler = SMPReassembler(reassembles: configuration.reassembles, bufferSize: configuration.bufferSize)
    }

    /// The time of the next answer or of the restart: the earlier of the two times. Nil if no answer is pending and no restart is
    /// scheduled.
    var due: Duration? {
        let answer = waiting.first.map { max(max($0.arrived, releasedAt) + configuration.answerDelay, busyUntil) }
        return [answer, restartsAt].compactMap { $0 }.min()
    }

    func write(_ value: [UInt8], from connection: UInt16, at now: Duration) {
        let isFull = buffersInUse(at: now) >= configuration.bufferCount
        // Only the first value of a packet needs a free buffer. The host gets no error for a dropped value.
        if isFull, !reassembler.isInMidPacket { overflows += 1 }
        guard let bytes = reassembler.add(value, hasRoom: !isFull) else { return }
        if let limit = configuration.packetLimit, bytes.count > limit { return }
        waiting.append(Packet(connection: connection, bytes: bytes, arrived: now))
        longestQueue = max(longestQueue, waiting.count)
    }

    /// Returns the number of occupied buffers. Each waiting packet occupies one buffer, and an incomplete packet also occupies one buffer.
    /// Until `releasedAt`, the last request and its answer occupy two buffers.
    private func buffersInUse(at now: Duration) -> Int {
        waiting.count + (reassembler.isInMidPacket ? 1 : 0) + (now < releasedAt ? 2 : 0)
    }

    /// Reports the end of a connection. The server discards the waiting packets of this connection. The server also discards an incomplete
    /// packet, even if the packet is from another connection, because all connections share one reassembler.
    func disconnected(_ connection: UInt16) {
        waiting.removeAll { $0.connection == connection }
        reassembler.reset()
    }

    /// Handles the next packet and returns the answer. Returns nil if no packet waits, or if the packet gets no answer.
    ///
    /// - Throws: `FlashError` if a flash operation failed.
    func answer(at now: Duration) throws(FlashError) -> (connection: UInt16, bytes: [UInt8])? {
        guard let packet = waiting.first else { return nil }
        // If all buffers are occupied, the server has no second buffer for the answer. As observed with Zephyr, the server then writes an
        // answer with the error code 2 (no memory) into the buffer of the request.
        let isFull = buffersInUse(at: now) >= configuration.bufferCount
        waiting.removeFirst()
        packets += 1
        releasedAt = now + configuration.releaseDelay
        guard let request = SMPReceivedRequest(packet.bytes) else { return nil }
        let fields: Fields
        do throws(SMPRefusal) {
            fields = isFull ? try refuse(.general(2)) : try handle(request, at: now)
        } catch {
            if case .flash(let failure) = error { throw failure }
            return (
                packet.connection,
                request.answer(error.fields(version: version(of: request)), version: version(of: request))
            )
        }
        return (packet.connection, request.answer(fields, version: version(of: request)))
    }

    private func refuse(_ refusal: SMPRefusal) throws(SMPRefusal) -> Fields { throw refusal }

    private func version(of request: SMPReceivedRequest) -> UInt8 {
        configuration.knowsFirstVersionOnly ? 0 : min(request.version, 1)
    }

    private func handle(_ request: SMPReceivedRequest, at now: Duration) throws(SMPRefusal) -> Fields {
        if request.version > 1, !configuration.knowsFirstVersionOnly { throw .general(13) }
        guard request.isWhole else { throw .general(9) }
        guard let map = request.map else { throw .general(3) }
        if let program, let fields = try answer(of: program, request, map) { return fields }
        return switch (request.group, request.command, request.operation) {
        case (0, 0, _): try echo(map)
        case (0, 5, 2): restart(map, at: now)
        case (0, 6, 0) where configuration.reportsParameters:
            [
                ("buf_size", .scalar(CBORValue(configuration.bufferSize))),
                ("buf_count", .scalar(CBORValue(configuration.bufferCount))),
            ]
        case (0, 7, 0) where configuration.reportsBoard: try system(map)
        case (0, 8, 0) where configuration.bootloaderMode != nil: try bootloader(map)
        case (1, _, _) where !configuration.hasImageGroup: throw .general(8)
        case (1, 0, 0): list
        case (1, 0, 2) where configuration.marksImages: try setState(map)
        case (1, 1, 2): try upload(map, at: now)
        case (1, 5, 2): try erase(map)
        case (1, 6, 0) where configuration.reportsSlots: slotSizes
        case (128, 0, 0) where configuration.identity != nil && program != .loader: identity
        default: throw .general(8)
        }
    }
}

/// The commands of group 0 (OS).
extension SMPServer {
    func echo(_ map: [String: CBORValue]) throws(SMPRefusal) -> Fields {
        guard let text = map["d"] else { return [("r", .scalar(.text("")))] }
        guard case .text = text else { throw .general(3) }
        return [("r", .scalar(text))]
    }

    /// Schedules a restart. The server continues to answer requests until the restart.
    func restart(_ map: [String: CBORValue], at now: Duration) -> Fields {
        if program == .application, configuration.loader?.isEnteredOnRequest == true {
            restartsIntoLoader = map["boot_mode"]?.integer == 1
        }
        restartsAt = restartsAt ?? now + configuration.restartDelay
        return []
    }

    /// Returns the system information for a format letter of `uname`. The server supports only the letters `i`, `s` and `a`.
    func system(_ map: [String: CBORValue]) throws(SMPRefusal) -> Fields {
        let known = ["i": configuration.board, "s": "Zephyr", "a": "Zephyr \(configuration.board)"]
        guard let output = known[map["format"]?.text ?? "s"] else { throw .general(3) }
        return [("output", .scalar(.text(output)))]
    }

    /// The answer of Memfault's command for the device's identity.
    var identity: Fields {
        guard let identity = configuration.identity else { return [] }
        let running = identity.reportsVersion ? slots.running.map { "\($0.version)+virtual" } ?? "" : ""
        let version = identity.ownVersion ?? running
        return [
            ("device_serial", .scalar(.text(identity.serial))), ("hardware_version", .scalar(.text(identity.hardware))),
            ("software_type", .scalar(.text(identity.softwareType))), ("current_version", .scalar(.text(version))),
        ]
    }

    func bootloader(_ map: [String: CBORValue]) throws(SMPRefusal) -> Fields {
        switch map["query"]?.text {
        case nil: return [("bootloader", .scalar(.text("MCUboot")))]
        case "mode": return [("mode", .scalar(CBORValue(configuration.bootloaderMode ?? 0)))]
        default: throw .general(8)
        }
    }
}

/// The commands of group 1 (images): image list, mark for boot, confirm, erase, slot sizes.
extension SMPServer {
    var list: Fields {
        var images: [IndefiniteCBOR.Value] = []
        if let running = slots.running {
            images.append(entry(running, slot: 0, pending: false, confirmed: slots.isConfirmed, permanent: false))
        }
        // During an upload, Zephyr's server does not list the slot that receives the upload.
        if reception == nil, let held = slots.held {
            images.append(
                entry(
                    held, slot: 1, pending: slots.isPending, confirmed: !slots.isConfirmed, permanent: slots.isPermanent
                ))
        }
        return [("images", .list(images)), ("splitStatus", .scalar(.unsigned(0)))]
    }

    private func entry(
        _ image: SlotImage, slot: Int, pending: Bool, confirmed: Bool, permanent: Bool
    ) -> IndefiniteCBOR.Value {
        var fields: Fields = [("slot", .scalar(CBORValue(slot))), ("version", .scalar(.text(image.version)))]
        if configuration.listsDigests { fields.append(("hash", .scalar(.bytes(image.digest)))) }
        guard configuration.listsFlags else { return .map(fields) }
        let flags = [
            ("bootable", image.isBootable), ("pending", pending), ("confirmed", confirmed), ("active", slot == 0),
            ("permanent", permanent),
        ]
        return .map(fields + flags.map { ($0.0, .scalar(.bool($0.1))) })
    }

    var slotSizes: Fields {
        let sizes: [IndefiniteCBOR.Value] = [0, 1].map { slot in
            .map([
                ("slot", .scalar(CBORValue(slot))), ("size", .scalar(CBORValue(slots.flash.layout.slotSize))),
                ("upload_image_id", .scalar(CBORValue(slot))),
            ])
        }
        return [("images", .list([.map([("image", .scalar(.unsigned(0))), ("slots", .list(sizes))])]))]
    }

    func setState(_ map: [String: CBORValue]) throws(SMPRefusal) -> Fields {
        let confirm = map["confirm"]?.bool ?? false
        let digest = map["hash"]?.bytes ?? []
        guard digest.count == 32 || digest.isEmpty && confirm else { throw .image(24, first: 3) }
        let isRunning = digest.isEmpty || slots.running?.digest == digest
        if isRunning, !confirm { throw .image(33, first: 1) }
        if isRunning {
            if slots.isPending { throw .image(28, first: 6) }
            if !slots.isConfirmed { counters.confirmations += 1 }
            try onFlash { () throws(FlashError) in try slots.confirm() }
            return list
        }
        guard let held = slots.held, held.digest == digest else { throw .image(8, first: 1) }
        guard slots.isConfirmed else { throw .image(28, first: 6) }
        if !slots.isPending { try onFlash { () throws(FlashError) in try slots.mark(held, forGood: confirm) } }
        return list
    }

    func erase(_ map: [String: CBORValue]) throws(SMPRefusal) -> Fields {
        let slot = map["slot"]?.integer ?? 1
        if slot == 0 || isInUse { throw .image(9, first: 6) }
        guard slot == 1 else { throw .image(10, first: 1) }
        guard !slots.isEmpty else { throw .image(1, first: 1) }
        reception = nil
        try onFlash { () throws(FlashError) in try slots.erase() }
        return []
    }

    /// True if the next boot or a rollback needs the image in the slot at `SMPSlots.other`.
    var isInUse: Bool { program == nil && (slots.isPending || !slots.isConfirmed) }

    func onFlash(_ operation: () throws(FlashError) -> Void) throws(SMPRefusal) {
        do throws(FlashError) {
            try operation()
        } catch {
            throw .flash(error)
        }
    }
}

/// An error that the server returns for a request. In `fields(version:)`, the parameter is the version field of the SMP header: 0 for SMP
/// version 1, and 1 for SMP version 2.
enum SMPRefusal: Error {
    /// An error code that is the same in both versions of SMP.
    case general(Int)
    /// An error of the image group. The first value is the error code in SMP version 2, and `first` is the error code in SMP version 1.
    /// Only an answer in version 1 contains `reason`, because several image errors have the same code in version 1.
    case image(Int, first: Int, reason: String? = nil)
    /// A flash operation failed, for example because of a power cut. The server sends no answer.
    case flash(FlashError)

    func fields(version: UInt8) -> SMPServer.Fields {
        switch self {
        case .general(let code): [("rc", .scalar(.unsigned(UInt64(code))))]
        case .image(let code, _, _) where version > 0:
            [("err", .map([("group", .scalar(.unsigned(1))), ("rc", .scalar(.unsigned(UInt64(code))))]))]
        case .image(_, let code, let reason):
            [("rc", .scalar(.unsigned(UInt64(code))))] + (reason.map { [("rsn", .scalar(.text($0)))] } ?? [])
        case .flash: []
        }
    }
}
