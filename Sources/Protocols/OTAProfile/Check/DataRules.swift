import OTAFirmware
import OTAUpdate

/// The rules of the section "Data, and how order is kept".
extension CheckRule {
    private static let section = "data-and-how-order-is-kept"

    static let ofData = [
        CheckRule(
            "first-begin", section, "The first BEGIN of a connection answers with next 4096 and offset 0",
            fix: "set next to 0 for each new connection, and add 4096 before the answer to BEGIN", start: .newLink,
            [
                .position({ _ in CheckRequest.begin(1, size: 158) }, "BEGIN envelope") {
                    (_, position) throws(Deviation) in
                    guard position == Position(next: 4096, offset: 0, crc: 0) else {
                        throw Deviation("the position is \(position.text), expected next 4096, offset 0, CRC 0")
                    }
                }
            ]),
        CheckRule(
            "second-begin", section, "Another BEGIN adds 4096 to next",
            fix: "add 4096 to next at each accepted BEGIN, so that chunks from before it are stale",
            [
                .open(158),
                .position({ _ in CheckRequest.begin(1, size: 158) }, "another BEGIN") {
                    (memory, position) throws(Deviation) in
                    guard position.next == memory.next &+ 4096 else {
                        throw Deviation("next is \(position.next), expected \(memory.next &+ 4096)")
                    }
                },
            ]),
        CheckRule(
            "position", section, "SYNC answers with the next sequence number, the offset and the CRC of all chunks",
            fix: "add the bytes of each chunk to the CRC-32 and the offset before you answer SYNC",
            [
                .open(158),
                .send { memory in
                    var values = [memory.chunk(memory.object[0..<1])]
                    if memory.limits.window > 1 { values.append(memory.chunk(memory.object[1..<18], ahead: 1)) }
                    return values
                },
                .sync({ $0.limits.window > 1 ? 2 : 1 }, offset: { $0.limits.window > 1 ? 18 : 1 }),
            ]),
        CheckRule(
            "write-with-response", "the-service", "A write of Data with response has the effect of one without",
            fix: "handle both kinds of writes in the same function",
            [
                .open(158),
                CheckStep({ .writeData($0.chunk($0.object[0..<10])) }) { (_, outcome) throws(Deviation) in
                    if case .done = outcome { return 1 }
                    throw Deviation("the device refuses a write of Data with response")
                },
                .sync({ _ in 1 }, offset: { _ in 10 }),
            ]),
        CheckRule(
            "gap", section, "A missing chunk causes one rewind: next + 4096 at the same offset",
            fix: "if the sequence number is 1 to 2047 ahead, add 4096 to next and notify Progress once",
            [
                .open(158), .send { [$0.chunk($0.object[1..<9], ahead: 1), $0.chunk($0.object[9..<18], ahead: 2)] },
                .rewind(at: 0),
                .send { [$0.chunk($0.object[0..<10])] }, .sync({ _ in 1 }, offset: { _ in 10 }),
            ]),
        CheckRule(
            "far-chunk", section, "A chunk that is 2047 ahead causes a rewind",
            fix: "compute the distance modulo 65536; 1 to 2047 is a gap",
            [.open(158), .send { [$0.chunk($0.object[0..<9], ahead: 2047)] }, .rewind(at: 0)]),
        CheckRule(
            "stale-chunk", section, "Drops a chunk that is 2048 or more ahead, or behind, without a report",
            fix: "drop the value if the distance modulo 65536 is 2048 or more",
            [
                .open(158),
                .send { [$0.chunk($0.object[0..<9], ahead: 2048), $0.chunk($0.object[0..<9], ahead: -1)] }, .noRewind,
                .sync({ _ in 0 }, offset: { _ in 0 }),
            ]),
        CheckRule(
            "short-value", section, "Drops a value of Data with fewer than 3 bytes without a report",
            fix: "drop the value before you compare its sequence number",
            [
                .open(158), .send { [$0.chunk([]), Array($0.chunk([]).prefix(1))] }, .noRewind,
                .sync({ _ in 0 }, offset: { _ in 0 }),
            ]),
        CheckRule(
            "overflow", section, "A chunk that does not fit in the rest of the object causes a rewind",
            fix: "compare the length with the rest of the object before you copy the bytes",
            [.open(158)], CheckStep.transfer { _ in 150 },
            [
                .send { [$0.chunk([UInt8](repeating: 0, count: 9))] }, .rewind(at: 150),
            ]),
        CheckRule(
            "sync-ahead", "control", "SYNC with a sequence number ahead of next causes a rewind",
            fix: "check the sequence number of SYNC like that of a chunk",
            [
                .open(158),
                .position({ CheckRequest.sync($0.next &+ 3) }, "SYNC") { (memory, position) throws(Deviation) in
                    guard position.next == memory.next &+ 4096, position.offset == 0 else {
                        throw Deviation(
                            "the position is \(position.text), expected next \(memory.next &+ 4096), offset 0")
                    }
                },
            ]),
        CheckRule(
            "sync-behind", "control", "SYNC with a sequence number behind next is no error and causes no rewind",
            fix: "a chunk may overtake SYNC: rewind only for a distance of 1 to 2047",
            [
                .open(158), .send { [$0.chunk($0.object[0..<10])] },
                .position({ CheckRequest.sync($0.next) }, "SYNC") { (memory, position) throws(Deviation) in
                    guard position.next == memory.next &+ 1, position.offset == 10 else {
                        throw Deviation(
                            "the position is \(position.text), expected next \(memory.next &+ 1), offset 10")
                    }
                },
            ]),
        CheckRule(
            "idle-data", section, "Drops Data in the state idle without a report",
            fix: "accept Data only in the states envelope and image", start: .newLink,
            [
                .send { [$0.chunk([1, 2, 3], ahead: 5), $0.chunk([1, 2, 3])] }, .noRewind,
                .state(.idle, "after Data in idle"),
            ]),
        CheckRule(
            "progress-notifications", "progress", "Notifies Progress after every window ÷ 4 chunks",
            fix: "count the accepted chunks since the last notification, and notify at max(1, window ÷ 4)",
            start: .newLink,
            skipped: {
                $0.limits.window / 4 > $0.limits.longestEnvelope ? "the longest envelope is too short for it" : nil
            },
            [
                .open({ max(158, $0.limits.window / 4) }),
                .send { memory in
                    (0..<max(1, memory.limits.window / 4)).map { memory.chunk(memory.object[$0...$0], ahead: $0) }
                },
                CheckStep({ memory in
                    let expected = afterQuarter(memory)
                    return .listen(CheckStep.longestNotice) { $0.position == expected }
                }) { (memory, outcome) throws(Deviation) in
                    let expected = afterQuarter(memory)
                    guard try outcome.notified().contains(where: { $0.position == expected && $0.state == .envelope })
                    else { throw Deviation("no notification after \(expected.offset) chunks had \(expected.text)") }
                    return 1
                },
            ]),
        CheckRule(
            "lost-link", "states", "Is idle after a lost link",
            fix: "on the disconnection, close the open object and discard the envelope",
            [.open(158)], CheckStep.transfer { _ in 100 }, [.newLink, .state(.idle, "after a lost link")]),
    ]

    /// The position after a quarter of the window, in chunks of one byte.
    private static func afterQuarter(_ memory: CheckMemory) -> Position {
        let count = max(1, memory.limits.window / 4)
        return Position(next: memory.next &+ UInt16(count), offset: count, crc: memory.crc(count))
    }
}

extension CheckStep {
    /// The time limit of a notification after chunks, whose transfer can take seconds.
    static let longestNotice = Duration.seconds(10)

    /// Opens an envelope with a size and arbitrary bytes.
    static func open(_ size: Int) -> CheckStep { open { _ in size } }

    static func open(_ size: @escaping @Sendable (CheckMemory) -> Int) -> CheckStep {
        CheckStep({ .ask(CheckRequest.begin(1, size: size($0))) }) { (memory, outcome) throws(Deviation) in
            let position = try outcome.position("BEGIN envelope")
            memory.object = (0..<size(memory)).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ 0x5A) }
            (memory.next, memory.offset, memory.furthest, memory.stalls) = (position.next, 0, 0, 0)
            return 1
        }
    }

    /// Asks SYNC after a number of chunks, and expects all of them.
    static func sync(
        _ chunks: @escaping @Sendable (CheckMemory) -> Int, offset: @escaping @Sendable (CheckMemory) -> Int
    ) -> CheckStep {
        .position({ CheckRequest.sync($0.next &+ UInt16(chunks($0))) }, "SYNC") {
            (memory, position) throws(Deviation) in
            let count = offset(memory)
            let expected = Position(next: memory.next &+ UInt16(chunks(memory)), offset: count, crc: memory.crc(count))
            guard position == expected else {
                throw Deviation("the position is \(position.text), expected \(expected.text)")
            }
        }
    }

    /// Expects one notification of a rewind, and continues after it.
    static func rewind(at offset: Int) -> CheckStep {
        CheckStep({ memory in
            let next = memory.next &+ 4096
            return .listen(longestNotice) { $0.position.next &- next < 4096 }
        }) { (memory, outcome) throws(Deviation) in
            let next = memory.next &+ 4096
            let rewinds = try outcome.notified().filter { $0.position.next &- next < 4096 }
            guard rewinds.count == 1 else {
                throw Deviation("Progress notified \(rewinds.count) rewinds, expected 1 with next \(next)")
            }
            let expected = Position(next: next, offset: offset, crc: memory.crc(offset))
            guard rewinds[0].position == expected else {
                throw Deviation("the rewind has \(rewinds[0].position.text), expected \(expected.text)")
            }
            (memory.next, memory.offset) = (next, offset)
            return 1
        }
    }

    /// Expects no notification of a rewind.
    static let noRewind = CheckStep({ _ in .listen(.milliseconds(500)) { _ in false } }) {
        (memory, outcome) throws(Deviation) in
        let rewind = try outcome.notified().first { $0.position.next &- memory.next == 4096 }
        guard rewind == nil else { throw Deviation("Progress notified a rewind, expected none") }
        return 1
    }

    /// Sends the open object up to an offset, in bursts of at most one window, each with SYNC.
    static func transfer(_ end: @escaping @Sendable (CheckMemory) -> Int) -> [CheckStep] {
        let sync = CheckStep({
            .ask(CheckRequest.sync($0.next &+ UInt16($0.burst(upTo: end($0)).count)))
        }) { (memory, outcome) throws(Deviation) in
            let position = try outcome.position("SYNC")
            guard position.offset <= end(memory), position.crc == memory.crc(position.offset) else {
                throw Deviation("the position is \(position.text), which is not the CRC of the sent bytes")
            }
            memory.stalls = position.offset > memory.furthest ? 0 : memory.stalls + 1
            memory.furthest = max(memory.furthest, position.offset)
            (memory.next, memory.offset) = (position.next, position.offset)
            if position.offset == end(memory) { return 1 }
            guard memory.stalls < 8 else {
                throw Deviation("the device accepts no chunk after byte \(position.offset)")
            }
            return -1
        }
        return [.send { $0.burst(upTo: end($0)) }, sync]
    }
}

extension Position {
    var text: String { "next \(next), offset \(offset), CRC 0x\(Hex.encode([UInt8](bigEndian: crc)))" }
}

extension [UInt8] {
    fileprivate init(bigEndian value: UInt32) {
        self = (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * UInt32($0))) }
    }
}
