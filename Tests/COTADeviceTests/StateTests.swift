import COTADevice
import Testing

/// The profile's table, state by state and request by request.
@Suite struct StateTests {
    enum Request: String, CaseIterable, Sendable {
        case beginEnvelope, beginImage, sync, finish, apply, confirm, discard, identify
    }

    /// What a request meets: an answer, and the state after it. Nil for "bad state".
    private static let table: [(state: ota_state, after: [Request: ota_state])] = [
        (OTA_STATE_IDLE, [.beginEnvelope: OTA_STATE_ENVELOPE, .discard: OTA_STATE_IDLE]),
        (
            OTA_STATE_ENVELOPE,
            [
                .beginEnvelope: OTA_STATE_ENVELOPE, .sync: OTA_STATE_ENVELOPE, .finish: OTA_STATE_ACCEPTED,
                .discard: OTA_STATE_IDLE,
            ]
        ),
        (
            OTA_STATE_ACCEPTED,
            [.beginEnvelope: OTA_STATE_ENVELOPE, .beginImage: OTA_STATE_IMAGE, .discard: OTA_STATE_IDLE]
        ),
        (
            OTA_STATE_IMAGE,
            [
                .beginEnvelope: OTA_STATE_ENVELOPE, .beginImage: OTA_STATE_IMAGE, .sync: OTA_STATE_IMAGE,
                .finish: OTA_STATE_VERIFIED, .discard: OTA_STATE_IDLE,
            ]
        ),
        (
            OTA_STATE_VERIFIED,
            [
                .beginEnvelope: OTA_STATE_ENVELOPE, .beginImage: OTA_STATE_IMAGE, .apply: OTA_STATE_VERIFIED,
                .discard: OTA_STATE_IDLE,
            ]
        ),
        (OTA_STATE_TRIAL, [.confirm: OTA_STATE_IDLE, .discard: OTA_STATE_TRIAL]),
    ]

    private func opcode(_ request: Request) -> ota_opcode {
        switch request {
        case .beginEnvelope, .beginImage: OTA_BEGIN
        case .sync: OTA_SYNC
        case .finish: OTA_FINISH
        case .apply: OTA_APPLY
        case .confirm: OTA_CONFIRM
        case .discard: OTA_DISCARD
        case .identify: OTA_IDENTIFY
        }
    }

    private func arguments(_ request: Request, _ bench: Bench) -> [UInt8] {
        switch request {
        case .beginEnvelope: Bench.beginArguments(OTA_OBJECT_ENVELOPE, Release().envelope)
        case .beginImage: Bench.beginArguments(OTA_OBJECT_IMAGE, Release().image)
        case .sync: bench.progress?.position.map { little($0.next) } ?? []
        case .apply: [0]
        case .identify: [4]
        case .finish, .confirm, .discard: []
        }
    }

    /// All of the open object is in, so that FINISH has something to judge.
    private func complete(_ bench: Bench) {
        guard let position = bench.progress?.position else { return }
        if bench.state == OTA_STATE_ENVELOPE { bench.send(Release().envelope, at: position) }
        if bench.state == OTA_STATE_IMAGE { bench.send(Release().image, at: position) }
    }

    @Test(arguments: table.indices, Request.allCases)
    func everyRequest(_ row: Int, _ request: Request) {
        let (state, after) = Self.table[row]
        let bench = Bench()
        bench.bring(to: state)
        #expect(bench.state == state)
        if request == .finish { complete(bench) }
        _ = bench.heard(OTA_PROGRESS)
        let status = bench.request(opcode(request), arguments(request, bench))
        if request == .identify {
            #expect(status == OTA_OK)
            #expect(bench.identified == [4])
            #expect(bench.state == state)
        } else {
            #expect(status == (after[request] == nil ? OTA_BAD_STATE : OTA_OK))
            #expect(bench.state == after[request] ?? state)
        }
        // No change of state here was without a request.
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
        #expect(bench.progress?.state == UInt8(bench.state.rawValue))
        #expect(bench.flash.violations.isEmpty)
    }

    /// The state is looked at before the arguments: a wrong length is "bad argument" only where the request could be ok.
    @Test(arguments: table.indices, Request.allCases)
    func wrongLengths(_ row: Int, _ request: Request) {
        let (state, after) = Self.table[row]
        for isLong in [false, true] {
            let bench = Bench()
            bench.bring(to: state)
            if request == .finish { complete(bench) }
            var arguments = arguments(request, bench)
            guard isLong || !arguments.isEmpty else { continue }
            if isLong { arguments.append(0) } else { arguments.removeLast() }
            let isPossible = after[request] != nil || request == .identify
            #expect(bench.request(opcode(request), arguments) == (isPossible ? OTA_BAD_ARGUMENT : OTA_BAD_STATE))
            #expect(bench.state == state)
        }
    }

    @Test(arguments: table.indices)
    func data(_ row: Int) {
        let state = Self.table[row].state
        let bench = Bench()
        bench.bring(to: state)
        guard let before = bench.progress?.position else { return }
        bench.write(data: little(before.next) + Release().image[242..<300])
        let after = bench.progress?.position
        if state == OTA_STATE_ENVELOPE || state == OTA_STATE_IMAGE {
            #expect(after?.offset == before.offset + 58)
            #expect(after?.next == before.next &+ 1)
        } else {
            #expect(after == before)
            #expect(after?.offset == 0)
            #expect(after?.crc == 0)
        }
        // Far ahead where no object is open: no rewind either.
        bench.write(data: little(before.next &+ 9) + [1, 2, 3])
        let isOpen = state == OTA_STATE_ENVELOPE || state == OTA_STATE_IMAGE
        #expect(bench.heard(OTA_PROGRESS).count == (isOpen ? 1 : 0))
    }

    @Test(arguments: table.indices, [0, 8, 9, 0x7F, 0x80, 0x81, 0xFF] as [UInt8])
    func unknownOpcodes(_ row: Int, _ opcode: UInt8) {
        let bench = Bench()
        bench.bring(to: Self.table[row].state)
        #expect(bench.request(opcode) == [1])
        #expect(bench.state == Self.table[row].state)
    }

    @Test(arguments: [OTA_STATE_ENVELOPE, OTA_STATE_IMAGE])
    func finishOfAnIncompleteObjectChangesNothing(_ state: ota_state) throws {
        let bench = Bench()
        bench.bring(to: state)
        let position = bench.progress?.position
        #expect(bench.request(OTA_FINISH) == OTA_BAD_STATE)
        #expect(bench.state == state)
        #expect(bench.progress?.position == position)
    }

    @Test func finishThatFailsLeavesTheImage() throws {
        let bench = Bench()
        bench.bring(to: OTA_STATE_ACCEPTED)
        let wrong = Release.image(count: 600, seed: 1)
        bench.send(wrong, at: try #require(bench.begin(OTA_OBJECT_IMAGE, Release().image)))
        #expect(bench.request(OTA_FINISH) == OTA_DIGEST_MISMATCH)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        #expect(bench.progress?.status == 0)
        // What was held is forgotten, and stays so.
        #expect(bench.begin(OTA_OBJECT_IMAGE, Release().image, from: .max)?.offset == 0)
        bench.boot()
        bench.connect()
        bench.submit(Release().envelope)
        #expect(bench.begin(OTA_OBJECT_IMAGE, Release().image, from: .max)?.offset == 0)
    }

    @Test(arguments: [0, 1, 157, 1333, 65535, 65536 + 169, .max] as [UInt32])
    func envelopeSizes(_ size: UInt32) {
        let bench = Bench()
        bench.bring(to: OTA_STATE_IDLE)
        #expect(bench.request(OTA_BEGIN, [1] + little(size) + [UInt8](repeating: 0, count: 12)) == OTA_BAD_ARGUMENT)
        #expect(bench.state == OTA_STATE_IDLE)
    }

    @Test func imageArguments() {
        let bench = Bench()
        bench.bring(to: OTA_STATE_ACCEPTED)
        let arguments = Bench.beginArguments(OTA_OBJECT_IMAGE, Release().image)
        for place in [1, 2, 3, 4] + Array(9..<17) {
            var changed = arguments
            changed[place] ^= 1
            #expect(bench.request(OTA_BEGIN, changed) == OTA_BAD_ARGUMENT)
        }
        for object in [0, 3, 255] as [UInt8] {
            #expect(bench.request(OTA_BEGIN, [object] + arguments.dropFirst()) == OTA_BAD_ARGUMENT)
        }
        #expect(bench.request(OTA_BEGIN, []) == OTA_BAD_ARGUMENT)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        #expect(bench.request(OTA_BEGIN, arguments) == OTA_OK)
    }

    /// Which of its columns a BEGIN belongs to is known from the object alone.
    @Test func aBeginOfNothingButItsObject() {
        let bench = Bench()
        bench.bring(to: OTA_STATE_IDLE)
        #expect(bench.request(OTA_BEGIN, [2]) == OTA_BAD_STATE)
        #expect(bench.request(OTA_BEGIN, [1]) == OTA_BAD_ARGUMENT)
        #expect(bench.request(OTA_BEGIN, []) == OTA_BAD_ARGUMENT)
        bench.bring(to: OTA_STATE_TRIAL)
        #expect(bench.request(OTA_BEGIN, []) == OTA_BAD_STATE)
    }

    @Test func aLostLinkEndsTheStates() {
        for row in Self.table {
            let bench = Bench()
            bench.bring(to: row.state)
            bench.reconnect()
            #expect(bench.state == (row.state == OTA_STATE_TRIAL ? OTA_STATE_TRIAL : OTA_STATE_IDLE))
            #expect(bench.progress?.position == Position(next: 0, offset: 0, crc: 0))
        }
    }

    @Test func controlNeedsItsNotifications() {
        let bench = Bench()
        bench.boot()
        bench.connect(1, control: false)
        #expect(bench.write(control: [7, 1, 9]).rawValue == 0xFD)
        #expect(bench.identified.isEmpty)
        ota_device_subscribed(bench.device, 1, OTA_CONTROL, true, bench.now)
        #expect(bench.request(OTA_IDENTIFY, [9]) == OTA_OK)
        ota_device_subscribed(bench.device, 1, OTA_CONTROL, false, bench.now)
        #expect(bench.write(control: [7, 1, 9]).rawValue == 0xFD)
        #expect(bench.identified == [9])
    }

    @Test func aRequestWithoutATagCannotBeAnswered() {
        let bench = Bench()
        bench.bring(to: OTA_STATE_IDLE)
        #expect(bench.write(control: []) == OTA_ATT_INVALID_LENGTH)
        #expect(bench.write(control: [7]) == OTA_ATT_INVALID_LENGTH)
        #expect(bench.notifications.isEmpty)
    }
}
