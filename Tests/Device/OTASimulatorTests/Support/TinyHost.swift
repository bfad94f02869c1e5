import OTAEngine
import OTAFirmware
import OTASimulator
import OTATestSupport
import OTAUpdate

/// A minimal host, written from docs/ota-profile.md. It sends a request, waits for the answer, and stores the notifications of Progress
/// that it receives in the meantime.
struct TinyHost {
    struct Lost: Error {}
    struct Unexpected: Error { var what: String }

    let link: any Link
    private var events: LinkEvents.Iterator
    /// The stored notifications of Progress, as hex.
    private(set) var progress: [String] = []
    /// The offset in bytes from which the device requested the last object.
    private(set) var resumedFrom = 0
    private var tag: UInt8 = 0x20

    init(_ link: any Link, _ events: LinkEvents) {
        self.link = link
        self.events = events.makeAsyncIterator()
    }

    mutating func next() async throws -> LinkEvent {
        guard let event = try? await events.next(isolation: #isolation) else { throw Lost() }
        return event
    }

    /// Waits until `pick` returns a value for an event. Earlier notifications of Progress are stored.
    mutating func wait<Value>(for pick: (LinkEvent) -> Value?) async throws -> Value {
        while true {
            let event = try await next()
            if let value = pick(event) { return value }
            if case .notified(let bytes, VirtualGATT.progress) = event { progress.append(Hex.encode(bytes)) }
            if case .refused(let error, _) = event { throw error }
        }
    }

    mutating func subscribe() async throws {
        for channel in [VirtualGATT.control, VirtualGATT.progress] {
            link.submit(.subscribe(channel))
            try await wait { if case .subscribed(channel) = $0 { () } else { nil } }
        }
    }

    mutating func read(_ channel: Channel) async throws -> [UInt8] {
        link.submit(.read(channel))
        return try await wait { if case .value(let bytes, channel) = $0 { bytes } else { nil } }
    }

    /// Writes a request to Control and returns the answer, both as hex. The write response may arrive before or after the answer.
    mutating func ask(_ request: String) async throws -> String { Hex.encode(try await ask(Example.bytes(request))) }

    mutating func ask(_ request: [UInt8]) async throws -> [UInt8] {
        link.submit(.write(request, VirtualGATT.control))
        var answer: [UInt8]?
        var isWritten = false
        while answer == nil || !isWritten {
            let event = try await wait { event in
                switch event {
                case .written(VirtualGATT.control), .notified(_, VirtualGATT.control): event
                default: nil
                }
            }
            if case .notified(let bytes, _) = event { answer = bytes } else { isWritten = true }
        }
        return answer ?? []
    }

    /// Sends a request with a new tag, and returns the status and the results of the answer.
    mutating func request(_ opcode: UInt8, _ arguments: [UInt8] = []) async throws -> [UInt8] {
        tag &+= 1
        let answer = try await ask([opcode, tag] + arguments)
        guard answer.starts(with: [0x80 | opcode, tag]) else { throw Unexpected(what: Hex.encode(answer)) }
        return Array(answer.dropFirst(2))
    }

    mutating func demand(_ opcode: UInt8, _ arguments: [UInt8] = []) async throws -> [UInt8] {
        let answer = try await request(opcode, arguments)
        guard answer.first == 0 else { throw Unexpected(what: "opcode \(opcode): status \(answer)") }
        return Array(answer.dropFirst())
    }

    func send(_ chunks: [[UInt8]]) { link.submit(.send(chunks, VirtualGATT.data)) }

    /// Sends an object from the device's offset, one window at a time, and requests its verification.
    mutating func transfer(
        _ object: UInt8, _ bytes: [UInt8], digest: [UInt8], resume: Bool, window: Int = 64
    ) async throws {
        var begin = ByteWriter()
        begin.write(object)
        begin.write(UInt32(bytes.count))
        begin.write(resume ? UInt32.max : 0)
        begin.write(digest.prefix(8))
        var (sequence, offset) = try Self.position(try await demand(1, begin.bytes))
        resumedFrom = offset
        let length = min(link.properties.maximumValueLength, 495) - 2
        while offset < bytes.count {
            var chunks: [[UInt8]] = []
            while offset < bytes.count, chunks.count < window {
                let part = bytes[offset..<min(offset + length, bytes.count)]
                chunks.append([UInt8(truncatingIfNeeded: sequence), UInt8(sequence >> 8)] + part)
                sequence &+= 1
                offset += part.count
            }
            send(chunks)
            let sync = [UInt8(truncatingIfNeeded: sequence), UInt8(sequence >> 8)]
            (sequence, offset) = try Self.position(try await demand(2, sync))
        }
        _ = try await demand(3)
    }

    /// Runs an update up to the mark for boot.
    mutating func install(
        _ envelope: [UInt8], _ image: [UInt8], digests: (envelope: [UInt8], image: [UInt8]), resume: Bool
    )
        async throws
    {
        try await subscribe()
        try await transfer(1, envelope, digest: digests.envelope, resume: false)
        try await transfer(2, image, digest: digests.image, resume: resume)
        _ = try await demand(4, [0])
    }

    private static func position(_ results: [UInt8]) throws -> (UInt16, Int) {
        var reader = ByteReader(results)
        let next: UInt16 = try reader.read()
        let offset: UInt32 = try reader.read()
        return (next, Int(offset))
    }
}

extension Transport {
    /// Runs `body` with a host on an open link.
    func host<Value: Sendable>(_ body: (inout TinyHost) async throws -> Value) async throws -> Value {
        try await withLink { link, events in
            var host = TinyHost(link, events)
            return try await body(&host)
        }
    }
}
