import COTADevice
import Testing

/// Tests each cell of the profile's table of states and requests.
@Suite("States and requests of the device core") struct StateTests {
    enum Request: String, CaseIterable, Sendable {
        case beginEnvelope, beginImage, sync, finish, apply, confirm, discard, identify
    }

    /// The state after each accepted request. All other requests are answered with "bad state".
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
        case .beginEnvelope: Bench.beginArguments(OTA_OBJECT_ENVELOPE, BenchRelease().envelope)
        case .beginImage: Bench.beginArguments(OTA_OBJECT_IMAGE, BenchRelease().image)
        case .sync: bench.progress?.position.map { little($0.next) } ?? []
        case .apply: [0]
        case .identify: [4]
        case .finish, .confirm, .discard: []
        }
    }

    /// Sends the rest of the open object, so that FINISH is possible.
    private func complete(_ bench: Bench) {
        guard let position = bench.progress?.position else { return }
        if bench.state == OTA_STATE_ENVELOPE { bench.send(BenchRelease().envelope, at: position) }
        if bench.state == OTA_STATE_IMAGE { bench.send(BenchRelease().image, at: position) }
    }

    @Test(
        "each request has the answer and the next state of the table in the profile", arguments: table.indices,
        Request.allCases)
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
        // Only a state change without a request causes a Progress.
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
        #expect(bench.progress?.state == UInt8(bench.state.rawValue))
        #expect(bench.flash.violations.isEmpty)
    }

    @Test("a device that cannot blink answers IDENTIFY with unknown opcode")
    func cannotBlink() {
        let bench = Bench()
        bench.bring(to: OTA_STATE_IDLE)
        bench.change { $0.identify = nil }
        #expect(bench.request(OTA_IDENTIFY, [4]) == OTA_UNKNOWN_OPCODE)
        #expect(bench.identified.isEmpty)
    }

    /// The core checks the state before the arguments.
    @Test(
        "a request of the wrong length is a bad argument only in a state that permits the request",
        arguments: table.indices, Request.allCases)
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

    @Test("Data is stored only while an object is open", arguments: table.indices)
    func data(_ row: Int) {
        let state = Self.table[row].state
        let bench = Bench()
        bench.bring(to: state)
        guard let before = bench.progress?.position else { return }
        bench.write(data: little(before.next) + BenchRelease().image[242..<300])
        let after = bench.progress?.position
        if state == OTA_STATE_ENVELOPE || state == OTA_STATE_IMAGE {
            #expect(after?.offset == before.offset + 58)
            #expect(after?.next == before.next &+ 1)
        } else {
            #expect(after == before)
            #expect(after?.offset == 0)
            #expect(after?.crc == 0)
        }
        // A sequence ahead causes a rewind only while an object is open.
        bench.write(data: little(before.next &+ 9) + [1, 2, 3])
        let isOpen = state == OTA_STATE_ENVELOPE || state == OTA_STATE_IMAGE
        #expect(bench.heard(OTA_PROGRESS).count == (isOpen ? 1 : 0))
    }

    @Test(
        "an unknown opcode is answered with status 1 in every state", arguments: table.indices,
        [0, 8, 9, 0x7F, 0x80, 0x81, 0xFF] as [UInt8])
    func unknownOpcodes(_ row: Int, _ opcode: UInt8) {
        let bench = Bench()
        bench.bring(to: Self.table[row].state)
        #expect(bench.request(opcode) == [1])
        #expect(bench.state == Self.table[row].state)
    }

    @Test(
        "FINISH of an incomplete object is refused and changes nothing",
        arguments: [OTA_STATE_ENVELOPE, OTA_STATE_IMAGE])
    func finishOfAnIncompleteObjectChangesNothing(_ state: ota_state) throws {
        let bench = Bench()
        bench.bring(to: state)
        let position = bench.progress?.position
        #expect(bench.request(OTA_FINISH) == OTA_BAD_STATE)
        #expect(bench.state == state)
        #expect(bench.progress?.position == position)
    }

    @Test("FINISH with a wrong digest discards the image durably")
    func finishThatFailsLeavesTheImage() throws {
        let bench = Bench()
        bench.bring(to: OTA_STATE_ACCEPTED)
        let wrong = BenchRelease.image(count: 600, seed: 1)
        bench.send(wrong, at: try #require(bench.begin(OTA_OBJECT_IMAGE, BenchRelease().image)))
        #expect(bench.request(OTA_FINISH) == OTA_DIGEST_MISMATCH)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        #expect(bench.progress?.status == 0)
        // The held bytes are discarded, also after a reset.
        #expect(bench.begin(OTA_OBJECT_IMAGE, BenchRelease().image, from: .max)?.offset == 0)
        bench.boot()
        bench.connect()
        bench.submit(BenchRelease().envelope)
        #expect(bench.begin(OTA_OBJECT_IMAGE, BenchRelease().image, from: .max)?.offset == 0)
    }

    @Test(
        "BEGIN of an envelope with an impossible size is a bad argument",
        arguments: [0, 1, 157, 1333, 65535, 65536 + 169, .max] as [UInt32])
    func envelopeSizes(_ size: UInt32) {
        let bench = Bench()
        bench.bring(to: OTA_STATE_IDLE)
        #expect(bench.request(OTA_BEGIN, [1] + little(size) + [UInt8](repeating: 0, count: 12)) == OTA_BAD_ARGUMENT)
        #expect(bench.state == OTA_STATE_IDLE)
    }

    @Test("BEGIN of an image must match size and digest of the manifest")
    func imageArguments() {
        let bench = Bench()
        bench.bring(to: OTA_STATE_ACCEPTED)
        let arguments = Bench.beginArguments(OTA_OBJECT_IMAGE, BenchRelease().image)
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

    /// The object selects the column of the table.
    @Test("the answer to a short BEGIN depends on its object and the state")
    func aBeginOfNothingButItsObject() {
        let bench = Bench()
        bench.bring(to: OTA_STATE_IDLE)
        #expect(bench.request(OTA_BEGIN, [2]) == OTA_BAD_STATE)
        #expect(bench.request(OTA_BEGIN, [1]) == OTA_BAD_ARGUMENT)
        #expect(bench.request(OTA_BEGIN, []) == OTA_BAD_ARGUMENT)
        bench.bring(to: OTA_STATE_TRIAL)
        #expect(bench.request(OTA_BEGIN, []) == OTA_BAD_STATE)
    }

    @Test("a lost connection returns every state except trial to idle")
    func aLostLinkEndsTheStates() {
        for row in Self.table {
            let bench = Bench()
            bench.bring(to: row.state)
            bench.reconnect()
            #expect(bench.state == (row.state == OTA_STATE_TRIAL ? OTA_STATE_TRIAL : OTA_STATE_IDLE))
            #expect(bench.progress?.position == Position(next: 0, offset: 0, crc: 0))
        }
    }

    @Test("Control is refused while its notifications are off")
    func controlNeedsItsNotifications() {
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

    @Test("a Control value without opcode and tag is refused")
    func aRequestWithoutATagCannotBeAnswered() {
        let bench = Bench()
        bench.bring(to: OTA_STATE_IDLE)
        #expect(bench.write(control: []) == OTA_ATT_INVALID_LENGTH)
        #expect(bench.write(control: [7]) == OTA_ATT_INVALID_LENGTH)
        #expect(bench.notifications.isEmpty)
    }
}
