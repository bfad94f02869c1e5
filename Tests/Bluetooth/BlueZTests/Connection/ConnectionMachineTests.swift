import BlueZ
import DBus
import Testing

/// A connection machine with its objects and its clock.
struct Rig {
    var machine: ConnectionMachine
    var tree: BlueZObjectTree
    var now = Duration.zero

    static let adapter = Objects.adapterPath
    static let device = Objects.devicePath
    static let address = BluetoothAddress("00:AA:01:01:00:42").map { DeviceTarget.address($0) } ?? .name("")

    init(
        _ tree: BlueZObjectTree, _ target: DeviceTarget = address, adjust: (inout ConnectionRequest) -> Void = { _ in }
    ) {
        var request = ConnectionRequest(target, services: [Objects.ota])
        adjust(&request)
        machine = ConnectionMachine(request)
        self.tree = tree
    }

    mutating func send(_ event: ConnectionMachine.Event) -> [ConnectionMachine.Action] {
        machine.handle(event, tree, at: now)
    }

    /// Advances the clock to the machine's deadline.
    mutating func waitForDeadline() throws -> [ConnectionMachine.Action] {
        now = try #require(machine.deadline)
        return send(.deadlinePassed)
    }

    mutating func set(_ name: String, _ value: DBusValue?) -> [ConnectionMachine.Action] {
        tree.set(Self.device, BlueZName.device, name, value)
        return send(.treeChanged)
    }

    /// Advances the machine until it connects the device.
    mutating func reachConnecting() {
        #expect(send(.started) == [.call(.takeTurn(adapter: Self.adapter))])
        #expect(send(.finished(.takeTurn(adapter: Self.adapter))) == [.call(.connect(Self.device))])
    }

    mutating func reachReady() {
        reachConnecting()
        #expect(send(.finished(.connect(Self.device))) == [.yieldTurn])
        #expect(set("Connected", true) == [])
        #expect(set("ServicesResolved", true) == [.call(.refresh)])
        #expect(send(.finished(.refresh)) == [.ready(Self.device)])
    }
}

@Suite("Connection machine")
struct ConnectionMachineTests {
    /// The device is not yet known.
    private static var empty: BlueZObjectTree { Objects.tree([Objects.adapterPath: Objects.adapter]) }
    /// The device advertises and was never connected.
    private static var seen: BlueZObjectTree {
        Objects.tree([Objects.adapterPath: Objects.adapter, Objects.devicePath: Objects.device])
    }

    @Test("an object that bluetoothd reports but does not know is scanned for a limited number of times")
    func givesUpOnAnObjectThatIsNone() throws {
        var rig = Rig(Self.seen)
        rig.reachConnecting()
        let error = BlueZError(.noSuchObject, "")
        for _ in 0..<ConnectionMachine.repetitions {
            #expect(
                rig.send(.failed(.connect(Rig.device), error)) == [.yieldTurn, .call(.scan(adapter: Rig.adapter))])
            #expect(rig.send(.treeChanged) == [.stopScan, .call(.takeTurn(adapter: Rig.adapter))])
            #expect(rig.send(.finished(.takeTurn(adapter: Rig.adapter))) == [.call(.connect(Rig.device))])
        }
        #expect(rig.send(.failed(.connect(Rig.device), error)).last == .fail(error))
    }

    @Test("a known device is connected without a scan")
    func connectsADeviceThatIsKnown() {
        var rig = Rig(Objects.tree())
        rig.reachReady()
        #expect(rig.machine.deadline == nil)
        #expect(rig.set("RSSI", .int16(-40)) == [])
        #expect(rig.set("Connected", false) == [.fail(BlueZError(.disconnected, ""))])
        #expect(rig.send(.treeChanged) == [])
    }

    /// The new link exists before the machine gets the event.
    @Test("a link that ends and is replaced at once counts as ended")
    func seesTheEndOfALinkThatIsBackAtOnce() {
        var rig = Rig(Objects.tree())
        rig.reachReady()
        rig.tree.set(Rig.device, BlueZName.device, "Connected", false)
        #expect(rig.set("Connected", true) == [.fail(BlueZError(.disconnected, ""))])
        // The object was removed and added again. Below: a snapshot has the object without its link.
        var reported = Rig(Objects.tree())
        reported.reachReady()
        _ = reported.tree.apply(.removed(Rig.device, [BlueZName.device]))
        _ = reported.tree.apply(.snapshot(Objects.all))
        #expect(reported.set("Connected", true) == [.fail(BlueZError(.disconnected, ""))])
        var listed = Rig(Objects.tree())
        listed.reachReady()
        _ = listed.tree.apply(.snapshot(Objects.all))
        #expect(listed.set("Connected", true) == [.fail(BlueZError(.disconnected, ""))])
    }

    @Test("an unknown device is scanned for, and it needs a signal strength")
    func scansForADeviceThatIsNot() {
        var rig = Rig(Self.empty)
        #expect(rig.send(.started) == [.call(.scan(adapter: Rig.adapter))])
        #expect(rig.send(.finished(.scan(adapter: Rig.adapter))) == [])
        // bluetoothd may keep objects of devices that are out of range. These have no signal strength.
        rig.tree = Self.seen
        #expect(rig.set("RSSI", nil) == [])
        #expect(rig.set("RSSI", .int16(-90)) == [.stopScan, .call(.takeTurn(adapter: Rig.adapter))])
    }

    @Test("a device that must be heard first is scanned for, although bluetoothd knows it")
    func hearsFirst() {
        var silent = Rig(Self.seen) { $0.hearsFirst = true }
        silent.tree.set(Rig.device, BlueZName.device, "RSSI", nil)
        #expect(silent.send(.started) == [.call(.scan(adapter: Rig.adapter))])
        #expect(silent.set("RSSI", .int16(-90)) == [.stopScan, .call(.takeTurn(adapter: Rig.adapter))])
        for property in ["Paired", "Connected"] {
            var known = Rig(Self.seen) { $0.hearsFirst = true }
            known.tree.set(Rig.device, BlueZName.device, property, true)
            #expect(known.send(.started) == [.call(.takeTurn(adapter: Rig.adapter))], "\(property)")
        }
    }

    @Test("a scan without a result fails with noSuchDevice after 10 s")
    func givesUpAScanThatFindsNothing() throws {
        var rig = Rig(Self.empty)
        _ = rig.send(.started)
        #expect(try rig.waitForDeadline() == [.stopScan, .fail(BlueZError(.noSuchDevice, ""))])
        #expect(rig.now == .seconds(10))
    }

    @Test("a scan that cannot start fails the attempt with its error")
    func tellsOfAScanThatCannotBeStarted() {
        var rig = Rig(Self.empty)
        _ = rig.send(.started)
        let error = BlueZError(.inProgress, "")
        #expect(rig.send(.failed(.scan(adapter: Rig.adapter), error)) == [.stopScan, .fail(error)])
    }

    // MARK: - Selection of the device

    @Test(
        "a target that can match several devices waits 1.5 s for a second candidate",
        arguments: [DeviceTarget.name("Bumble"), .only(service: Objects.ota)])
    func waitsWhetherThereIsAnother(_ target: DeviceTarget) throws {
        var rig = Rig(Self.seen, target)
        #expect(rig.send(.started) == [.call(.scan(adapter: Rig.adapter))])
        #expect(rig.send(.treeChanged) == [])
        #expect(try rig.waitForDeadline() == [.stopScan, .call(.takeTurn(adapter: Rig.adapter))])
        #expect(rig.now == ConnectionMachine.decisionTime)
    }

    @Test("two candidates fail with ambiguousDevice and a list")
    func refusesToChoose() throws {
        var rig = Rig(Self.seen, .only(service: Objects.ota))
        _ = rig.send(.started)
        _ = rig.send(.treeChanged)
        var other = Objects.device
        other[BlueZName.device]?["Address"] = "00:AA:01:02:00:42"
        other[BlueZName.device]?["Name"] = nil
        _ = rig.tree.apply(.added("/org/bluez/hci0/dev_00_AA_01_02_00_42", other))
        let actions = try rig.waitForDeadline()
        #expect(actions == [.stopScan, .fail(BlueZError(.ambiguousDevice, ""))])
        guard case .fail(let error) = actions.last else { return }
        #expect(error.context.contains("00:AA:01:01:00:42 Bumble, 00:AA:01:02:00:42 –"))
    }

    // MARK: - bluetoothd and the adapter

    @Test(
        "a missing bluetoothd or adapter fails at once",
        arguments: [
            (BlueZObjectTree(), BlueZError.Code.serviceUnavailable), (Objects.tree([:]), .noSuchAdapter),
        ])
    func saysAtOnceWhatIsMissing(_ tree: BlueZObjectTree, _ code: BlueZError.Code) {
        var rig = Rig(tree)
        #expect(rig.send(.started) == [.fail(BlueZError(code, ""))])
    }

    @Test("a bluetoothd and an adapter that were available before are waited for")
    func waitsForWhatWasThereBefore() throws {
        var rig = Rig(BlueZObjectTree()) { $0.waitsForAdapter = true }
        #expect(rig.send(.started) == [])
        rig.now = .seconds(9)
        rig.tree = Objects.tree([Objects.adapterPath: Objects.adapter])
        rig.tree.set(Rig.adapter, BlueZName.adapter, "Powered", false)
        #expect(rig.send(.treeChanged) == [])
        rig.tree.set(Rig.adapter, BlueZName.adapter, "Powered", true)
        #expect(rig.send(.treeChanged) == [.call(.scan(adapter: Rig.adapter))])
        #expect(rig.machine.deadline == .seconds(19))

        var other = Rig(BlueZObjectTree()) { $0.waitsForAdapter = true }
        _ = other.send(.started)
        #expect(try other.waitForDeadline() == [.fail(BlueZError(.serviceUnavailable, ""))])
    }

    @Test("a link ends when bluetoothd stops, even if it is running again")
    func endsWithBluetoothd() {
        var rig = Rig(Objects.tree())
        rig.reachReady()
        _ = rig.tree.apply(.serviceLost)
        // bluetoothd is running again before the machine gets the event.
        _ = rig.tree.apply(.snapshot(Objects.all))
        #expect(rig.send(.treeChanged) == [.fail(BlueZError(.serviceUnavailable, ""))])
    }

    @Test("an attempt or a link ends when the adapter is switched off or removed")
    func endsWithTheAdapter() {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        rig.tree.set(Rig.adapter, BlueZName.adapter, "Powered", false)
        #expect(rig.send(.treeChanged) == [.releaseLink(Rig.device), .yieldTurn, .fail(BlueZError(.adapterOff, ""))])
        var removed = Rig(Objects.tree())
        removed.reachReady()
        _ = removed.tree.apply(.removed(Rig.adapter, [BlueZName.adapter]))
        #expect(removed.send(.treeChanged) == [.fail(BlueZError(.noSuchAdapter, ""))])
    }

    // MARK: - Peculiarities of BlueZ

    /// The previous link was still closing.
    @Test(
        "an attempt that fails while the previous link is closing is repeated after 0.5 s",
        arguments: [BlueZError.Code.connectionFailed, .failed, .inProgress, .disconnected])
    func connectsAgain(after code: BlueZError.Code) throws {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        #expect(rig.send(.failed(.connect(Rig.device), BlueZError(code, ""))) == [.yieldTurn])
        #expect(try rig.waitForDeadline() == [.call(.takeTurn(adapter: Rig.adapter))])
        #expect(rig.now == ConnectionMachine.settleTime)
        #expect(rig.send(.finished(.takeTurn(adapter: Rig.adapter))) == [.call(.connect(Rig.device))])
        // The limit of 10 s applies to all attempts together.
        #expect(rig.machine.deadline == .seconds(10))
        rig.now = .milliseconds(9_600)
        let error = BlueZError(code, "")
        #expect(rig.send(.failed(.connect(Rig.device), error)) == [.releaseLink(Rig.device), .yieldTurn, .fail(error)])
    }

    @Test("Connect without a reply times out after 10 s and is ended")
    func givesUpAnAttemptThatTellsNothing() throws {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        #expect(try rig.waitForDeadline() == [.releaseLink(Rig.device), .yieldTurn, .fail(BlueZError(.timedOut, ""))])
        #expect(rig.now == .seconds(10))
    }

    @Test("a scan finds a device again whose object is gone")
    func scansForAnObjectThatHasVanished() {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        #expect(
            rig.send(.failed(.connect(Rig.device), BlueZError(.noSuchObject, "")))
                == [.yieldTurn, .call(.scan(adapter: Rig.adapter))])
    }

    @Test(
        "an error that a repetition cannot fix ends the attempt",
        arguments: [BlueZError.Code.accessDenied, .pairingFailed, .notSupported, .adapterOff])
    func doesNotTryAgainWhatCannotHelp(_ code: BlueZError.Code) {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        let error = BlueZError(code, "")
        #expect(rig.send(.failed(.connect(Rig.device), error)) == [.releaseLink(Rig.device), .yieldTurn, .fail(error)])
    }

    /// bluetoothd replies to `Connect` before it reports the link, or the link was aborted.
    @Test("a successful Connect without a link times out")
    func waitsForTheLinkItself() throws {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        #expect(rig.send(.finished(.connect(Rig.device))) == [.yieldTurn])
        #expect(rig.set("ServicesResolved", false) == [])
        #expect(try rig.waitForDeadline() == [.releaseLink(Rig.device), .fail(BlueZError(.timedOut, ""))])
    }

    @Test("a link that breaks during the service discovery is made again, twice at most")
    func makesALinkAnewThatBreaksEarly() throws {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        for _ in 0..<ConnectionMachine.repetitions {
            _ = rig.send(.finished(.connect(Rig.device)))
            #expect(rig.set("Connected", true) == [])
            #expect(rig.set("Connected", false) == [])
            let before = rig.now
            #expect(try rig.waitForDeadline() == [.call(.takeTurn(adapter: Rig.adapter))])
            #expect(rig.now == before + ConnectionMachine.settleTime)
            _ = rig.send(.finished(.takeTurn(adapter: Rig.adapter)))
        }
        _ = rig.send(.finished(.connect(Rig.device)))
        _ = rig.set("Connected", true)
        #expect(rig.set("Connected", false) == [.releaseLink(Rig.device), .fail(BlueZError(.disconnected, ""))])
    }

    /// bluetoothd reports the link and its services before it replies to `Connect`.
    @Test("a link that is ready before the reply to Connect is used")
    func takesALinkThatCameWithoutAWord() {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        #expect(rig.set("Connected", true) == [])
        #expect(rig.set("ServicesResolved", true) == [])
        #expect(rig.send(.finished(.connect(Rig.device))) == [.yieldTurn, .call(.refresh)])
    }

    @Test("an attribute cache without an advertised service is removed once")
    func forgetsATableThatLacksWhatIsAdvertised() throws {
        var rig = Rig(Self.seen)
        rig.reachConnecting()
        _ = rig.send(.finished(.connect(Rig.device)))
        _ = rig.set("Connected", true)
        _ = rig.set("ServicesResolved", true)
        let removal = ConnectionMachine.Call.removeDevice(Rig.device, adapter: Rig.adapter)
        #expect(rig.send(.finished(.refresh)) == [.call(removal)])
        _ = rig.tree.apply(.removed(Rig.device, [BlueZName.device]))
        #expect(rig.send(.treeChanged) == [])
        #expect(rig.send(.finished(removal)) == [])
        #expect(try rig.waitForDeadline() == [.call(.scan(adapter: Rig.adapter))])
        _ = rig.tree.apply(.added(Rig.device, Objects.device))
        #expect(rig.send(.treeChanged) == [.stopScan, .call(.takeTurn(adapter: Rig.adapter))])
        // The second time, the attributes are accepted as they are.
        _ = rig.send(.finished(.takeTurn(adapter: Rig.adapter)))
        _ = rig.send(.finished(.connect(Rig.device)))
        _ = rig.set("Connected", true)
        _ = rig.set("ServicesResolved", true)
        #expect(rig.send(.finished(.refresh)) == [.ready(Rig.device)])
    }

    /// A device normally has only one of the update services.
    @Test("one of the expected services is enough, and a cache without any is removed")
    func takesATableWithOneOfTheServices() {
        let other = BluetoothUUID(0x8d53_dc1d_1db7_4cd3_868b_8a52_7460_aa84)
        var rig = Rig(Objects.tree()) { $0.services = [Objects.ota, other] }
        rig.reachReady()
        rig = Rig(Objects.tree()) { $0.services = [other] }
        rig.reachConnecting()
        _ = rig.send(.finished(.connect(Rig.device)))
        _ = rig.set("Connected", true)
        _ = rig.set("ServicesResolved", true)
        #expect(rig.send(.finished(.refresh)) == [.call(.removeDevice(Rig.device, adapter: Rig.adapter))])
    }

    @Test("the cache of a paired device is not removed")
    func leavesABondAlone() {
        var tree = Self.seen
        tree.set(Rig.device, BlueZName.device, "Paired", true)
        var rig = Rig(tree)
        rig.reachConnecting()
        _ = rig.send(.finished(.connect(Rig.device)))
        _ = rig.set("Connected", true)
        _ = rig.set("ServicesResolved", true)
        #expect(rig.send(.finished(.refresh)) == [.ready(Rig.device)])
    }

    @Test("refreshesCache removes a device first, but not a paired device", arguments: [false, true])
    func refreshesTheTable(isPaired: Bool) {
        var tree = Self.seen
        tree.set(Rig.device, BlueZName.device, "Paired", .boolean(isPaired))
        var rig = Rig(tree) { $0.refreshesCache = true }
        let removal = ConnectionMachine.Call.removeDevice(Rig.device, adapter: Rig.adapter)
        #expect(rig.send(.started) == [.call(isPaired ? .takeTurn(adapter: Rig.adapter) : removal)])
    }

    // MARK: - Existing links

    @Test("takesOver disconnects the existing link first")
    func takesOver() throws {
        var tree = Objects.tree()
        tree.set(Rig.device, BlueZName.device, "Connected", true)
        var rig = Rig(tree) { $0.takesOver = true }
        #expect(rig.send(.started) == [.call(.disconnect(Rig.device))])
        #expect(rig.set("Connected", false) == [])
        rig.now = .seconds(2)
        #expect(rig.send(.finished(.disconnect(Rig.device))) == [])
        #expect(try rig.waitForDeadline() == [.call(.takeTurn(adapter: Rig.adapter))])
        #expect(rig.now == .seconds(2) + ConnectionMachine.settleTime)
        #expect(!rig.machine.isShared)
    }

    @Test("an existing link is shared and not ended")
    func shares() {
        var tree = Objects.tree()
        tree.set(Rig.device, BlueZName.device, "Connected", true)
        tree.set(Rig.device, BlueZName.device, "ServicesResolved", true)
        var rig = Rig(tree)
        rig.reachConnecting()
        #expect(rig.send(.finished(.connect(Rig.device))) == [.yieldTurn, .call(.refresh)])
        #expect(rig.machine.isShared)
        // The machine does not end a link of another program.
        #expect(rig.send(.cancelled) == [.fail(BlueZError(.cancelled, ""))])
    }

    /// The existing link, perhaps an earlier link of this program, ends during `Connect`. The new link belongs to this program.
    @Test("a shared link that ends during Connect is replaced by a link of this program")
    func sharesNoLinkThatHasEnded() {
        var tree = Objects.tree()
        tree.set(Rig.device, BlueZName.device, "Connected", true)
        var reported = Rig(tree)
        reported.reachConnecting()
        #expect(reported.machine.isShared)
        #expect(reported.set("Connected", false) == [.own(Rig.device)])
        #expect(!reported.machine.isShared)
        #expect(reported.send(.cancelled) == [.releaseLink(Rig.device), .yieldTurn, .fail(BlueZError(.cancelled, ""))])
        // The link exists again before the machine gets the event of its end.
        var back = Rig(tree)
        back.reachConnecting()
        back.tree.set(Rig.device, BlueZName.device, "Connected", false)
        #expect(back.set("Connected", true) == [.own(Rig.device)])
        // The cancellation arrives before the event of the link's end.
        var cancelled = Rig(tree)
        cancelled.reachConnecting()
        cancelled.tree.set(Rig.device, BlueZName.device, "Connected", false)
        #expect(
            cancelled.send(.cancelled)
                == [.own(Rig.device), .releaseLink(Rig.device), .yieldTurn, .fail(BlueZError(.cancelled, ""))])
    }

    @Test("the link after a lost shared link belongs to this program")
    func sharesNoLinkThatIsMadeAnew() throws {
        var tree = Objects.tree()
        tree.set(Rig.device, BlueZName.device, "Connected", true)
        var rig = Rig(tree)
        rig.reachConnecting()
        #expect(rig.send(.finished(.connect(Rig.device))) == [.yieldTurn])
        #expect(rig.set("Connected", false) == [.own(Rig.device)])
        #expect(try rig.waitForDeadline() == [.call(.takeTurn(adapter: Rig.adapter))])
        _ = rig.send(.finished(.takeTurn(adapter: Rig.adapter)))
        #expect(rig.send(.cancelled).contains(.releaseLink(Rig.device)))
    }

    // MARK: - Cancellation

    @Test("a cancellation ends the scan, the turn or the link of each phase")
    func cleansUp() {
        var scanning = Rig(Self.empty)
        _ = scanning.send(.started)
        #expect(scanning.send(.cancelled) == [.stopScan, .fail(BlueZError(.cancelled, ""))])
        var queueing = Rig(Objects.tree())
        _ = queueing.send(.started)
        #expect(queueing.send(.cancelled) == [.yieldTurn, .fail(BlueZError(.cancelled, ""))])
        var connecting = Rig(Objects.tree())
        connecting.reachConnecting()
        #expect(
            connecting.send(.cancelled) == [.releaseLink(Rig.device), .yieldTurn, .fail(BlueZError(.cancelled, ""))])
        var discovering = Rig(Objects.tree())
        discovering.reachConnecting()
        _ = discovering.send(.finished(.connect(Rig.device)))
        #expect(discovering.send(.cancelled) == [.releaseLink(Rig.device), .fail(BlueZError(.cancelled, ""))])
    }
}
