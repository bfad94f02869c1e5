import BlueZ
import DBus
import Testing

/// A machine, the objects it sees, and the time.
struct Rig {
    var machine: ConnectionMachine
    var tree: ObjectTree
    var now = Duration.zero

    static let adapter = Objects.adapterPath
    static let device = Objects.devicePath
    static let address = BluetoothAddress("00:AA:01:01:00:42").map { DeviceTarget.address($0) } ?? .name("")

    init(_ tree: ObjectTree, _ target: DeviceTarget = address, adjust: (inout ConnectionRequest) -> Void = { _ in }) {
        var request = ConnectionRequest(target, services: [Objects.ota])
        adjust(&request)
        machine = ConnectionMachine(request)
        self.tree = tree
    }

    mutating func tell(_ event: ConnectionMachine.Event) -> [ConnectionMachine.Action] {
        machine.handle(event, tree, at: now)
    }

    /// Lets time pass until the machine wants to be called.
    mutating func waitForDeadline() throws -> [ConnectionMachine.Action] {
        now = try #require(machine.deadline)
        return tell(.deadlinePassed)
    }

    mutating func set(_ name: String, _ value: DBusValue?) -> [ConnectionMachine.Action] {
        tree.set(Self.device, BlueZName.device, name, value)
        return tell(.treeChanged)
    }

    /// To where the device is being connected.
    mutating func reachConnecting() {
        #expect(tell(.started) == [.call(.takeTurn(adapter: Self.adapter))])
        #expect(tell(.finished(.takeTurn(adapter: Self.adapter))) == [.call(.connect(Self.device))])
    }

    mutating func reachReady() {
        reachConnecting()
        #expect(tell(.finished(.connect(Self.device))) == [.yieldTurn])
        #expect(set("Connected", true) == [])
        #expect(set("ServicesResolved", true) == [.call(.refresh)])
        #expect(tell(.finished(.refresh)) == [.ready(Self.device)])
    }
}

struct ConnectionMachineTests {
    /// Nothing of the device is known yet.
    private static var empty: ObjectTree { Objects.tree([Objects.adapterPath: Objects.adapter]) }
    /// It advertises, and was never connected.
    private static var seen: ObjectTree {
        Objects.tree([Objects.adapterPath: Objects.adapter, Objects.devicePath: Objects.device])
    }

    /// An object that is told of and cannot be called is not looked for without end.
    @Test func givesUpOnAnObjectThatIsNone() throws {
        var rig = Rig(Self.seen)
        rig.reachConnecting()
        let error = BlueZError(.noSuchObject, "")
        for _ in 0..<ConnectionMachine.repetitions {
            #expect(
                rig.tell(.failed(.connect(Rig.device), error)) == [.yieldTurn, .call(.scan(adapter: Rig.adapter))])
            #expect(rig.tell(.treeChanged) == [.stopScan, .call(.takeTurn(adapter: Rig.adapter))])
            #expect(rig.tell(.finished(.takeTurn(adapter: Rig.adapter))) == [.call(.connect(Rig.device))])
        }
        #expect(rig.tell(.failed(.connect(Rig.device), error)).last == .fail(error))
    }

    @Test func connectsADeviceThatIsKnown() {
        var rig = Rig(Objects.tree())
        rig.reachReady()
        #expect(rig.machine.deadline == nil)
        #expect(rig.set("RSSI", .int16(-40)) == [])
        #expect(rig.set("Connected", false) == [.fail(BlueZError(.disconnected, ""))])
        #expect(rig.tell(.treeChanged) == [])
    }

    /// It was made anew before anybody looked.
    @Test func seesTheEndOfALinkThatIsBackAtOnce() {
        var rig = Rig(Objects.tree())
        rig.reachReady()
        rig.tree.set(Rig.device, BlueZName.device, "Connected", false)
        #expect(rig.set("Connected", true) == [.fail(BlueZError(.disconnected, ""))])
        // An object that was removed and is there again; one that a snapshot has without its link.
        var told = Rig(Objects.tree())
        told.reachReady()
        _ = told.tree.apply(.removed(Rig.device, [BlueZName.device]))
        _ = told.tree.apply(.snapshot(Objects.all))
        #expect(told.set("Connected", true) == [.fail(BlueZError(.disconnected, ""))])
        var listed = Rig(Objects.tree())
        listed.reachReady()
        _ = listed.tree.apply(.snapshot(Objects.all))
        #expect(listed.set("Connected", true) == [.fail(BlueZError(.disconnected, ""))])
    }

    @Test func scansForADeviceThatIsNot() {
        var rig = Rig(Self.empty)
        #expect(rig.tell(.started) == [.call(.scan(adapter: Rig.adapter))])
        #expect(rig.tell(.finished(.scan(adapter: Rig.adapter))) == [])
        // bluetoothd may keep objects of devices that are not there: without a signal strength nothing was heard.
        rig.tree = Self.seen
        #expect(rig.set("RSSI", nil) == [])
        #expect(rig.set("RSSI", .int16(-90)) == [.stopScan, .call(.takeTurn(adapter: Rig.adapter))])
    }

    @Test func givesUpAScanThatFindsNothing() throws {
        var rig = Rig(Self.empty)
        _ = rig.tell(.started)
        #expect(try rig.waitForDeadline() == [.stopScan, .fail(BlueZError(.noSuchDevice, ""))])
        #expect(rig.now == .seconds(10))
    }

    @Test func tellsOfAScanThatCannotBeStarted() {
        var rig = Rig(Self.empty)
        _ = rig.tell(.started)
        let error = BlueZError(.inProgress, "")
        #expect(rig.tell(.failed(.scan(adapter: Rig.adapter), error)) == [.stopScan, .fail(error)])
    }

    // MARK: Which device

    @Test(arguments: [DeviceTarget.name("Bumble"), .only(service: Objects.ota)])
    func waitsWhetherThereIsAnother(_ target: DeviceTarget) throws {
        var rig = Rig(Self.seen, target)
        #expect(rig.tell(.started) == [.call(.scan(adapter: Rig.adapter))])
        #expect(rig.tell(.treeChanged) == [])
        #expect(try rig.waitForDeadline() == [.stopScan, .call(.takeTurn(adapter: Rig.adapter))])
        #expect(rig.now == ConnectionMachine.decisionTime)
    }

    @Test func refusesToChoose() throws {
        var rig = Rig(Self.seen, .only(service: Objects.ota))
        _ = rig.tell(.started)
        _ = rig.tell(.treeChanged)
        var other = Objects.device
        other[BlueZName.device]?["Address"] = "00:AA:01:02:00:42"
        other[BlueZName.device]?["Name"] = nil
        _ = rig.tree.apply(.added("/org/bluez/hci0/dev_00_AA_01_02_00_42", other))
        let actions = try rig.waitForDeadline()
        #expect(actions == [.stopScan, .fail(BlueZError(.ambiguousDevice, ""))])
        guard case .fail(let error) = actions.last else { return }
        #expect(error.context.contains("00:AA:01:01:00:42 Bumble, 00:AA:01:02:00:42 –"))
    }

    // MARK: This machine

    @Test(arguments: [
        (ObjectTree(), BlueZError.Code.serviceUnavailable), (Objects.tree([:]), .noSuchAdapter),
    ])
    func saysAtOnceWhatIsMissing(_ tree: ObjectTree, _ code: BlueZError.Code) {
        var rig = Rig(tree)
        #expect(rig.tell(.started) == [.fail(BlueZError(code, ""))])
    }

    @Test func waitsForWhatWasThereBefore() throws {
        var rig = Rig(ObjectTree()) { $0.waitsForAdapter = true }
        #expect(rig.tell(.started) == [])
        rig.now = .seconds(9)
        rig.tree = Objects.tree([Objects.adapterPath: Objects.adapter])
        rig.tree.set(Rig.adapter, BlueZName.adapter, "Powered", false)
        #expect(rig.tell(.treeChanged) == [])
        rig.tree.set(Rig.adapter, BlueZName.adapter, "Powered", true)
        #expect(rig.tell(.treeChanged) == [.call(.scan(adapter: Rig.adapter))])
        #expect(rig.machine.deadline == .seconds(19))

        var other = Rig(ObjectTree()) { $0.waitsForAdapter = true }
        _ = other.tell(.started)
        #expect(try other.waitForDeadline() == [.fail(BlueZError(.serviceUnavailable, ""))])
    }

    @Test func endsWithBluetoothd() {
        var rig = Rig(Objects.tree())
        rig.reachReady()
        _ = rig.tree.apply(.serviceLost)
        // It came back before anybody looked.
        _ = rig.tree.apply(.snapshot(Objects.all))
        #expect(rig.tell(.treeChanged) == [.fail(BlueZError(.serviceUnavailable, ""))])
    }

    @Test func endsWithTheAdapter() {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        rig.tree.set(Rig.adapter, BlueZName.adapter, "Powered", false)
        #expect(rig.tell(.treeChanged) == [.releaseLink(Rig.device), .yieldTurn, .fail(BlueZError(.adapterOff, ""))])
        var removed = Rig(Objects.tree())
        removed.reachReady()
        _ = removed.tree.apply(.removed(Rig.adapter, [BlueZName.adapter]))
        #expect(removed.tell(.treeChanged) == [.fail(BlueZError(.noSuchAdapter, ""))])
    }

    // MARK: BlueZ's oddities

    /// The link of before was not quite down.
    @Test(arguments: [BlueZError.Code.connectionFailed, .failed, .inProgress, .disconnected])
    func connectsAgain(after code: BlueZError.Code) throws {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        #expect(rig.tell(.failed(.connect(Rig.device), BlueZError(code, ""))) == [.yieldTurn])
        #expect(try rig.waitForDeadline() == [.call(.takeTurn(adapter: Rig.adapter))])
        #expect(rig.now == ConnectionMachine.settleTime)
        #expect(rig.tell(.finished(.takeTurn(adapter: Rig.adapter))) == [.call(.connect(Rig.device))])
        // The time it takes counts: 10 s for all attempts together.
        #expect(rig.machine.deadline == .seconds(10))
        rig.now = .milliseconds(9_600)
        let error = BlueZError(code, "")
        #expect(rig.tell(.failed(.connect(Rig.device), error)) == [.releaseLink(Rig.device), .yieldTurn, .fail(error)])
    }

    @Test func givesUpAnAttemptThatTellsNothing() throws {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        #expect(try rig.waitForDeadline() == [.releaseLink(Rig.device), .yieldTurn, .fail(BlueZError(.timedOut, ""))])
        #expect(rig.now == .seconds(10))
    }

    @Test func scansForAnObjectThatHasVanished() {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        #expect(
            rig.tell(.failed(.connect(Rig.device), BlueZError(.noSuchObject, "")))
                == [.yieldTurn, .call(.scan(adapter: Rig.adapter))])
    }

    @Test(arguments: [BlueZError.Code.accessDenied, .pairingFailed, .notSupported, .adapterOff])
    func doesNotTryAgainWhatCannotHelp(_ code: BlueZError.Code) {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        let error = BlueZError(code, "")
        #expect(rig.tell(.failed(.connect(Rig.device), error)) == [.releaseLink(Rig.device), .yieldTurn, .fail(error)])
    }

    /// `Connect` is answered, and no link was told of: before it comes, or as it was aborted.
    @Test func waitsForTheLinkItself() throws {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        #expect(rig.tell(.finished(.connect(Rig.device))) == [.yieldTurn])
        #expect(rig.set("ServicesResolved", false) == [])
        #expect(try rig.waitForDeadline() == [.releaseLink(Rig.device), .fail(BlueZError(.timedOut, ""))])
    }

    @Test func makesALinkAnewThatBreaksEarly() throws {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        for _ in 0..<ConnectionMachine.repetitions {
            _ = rig.tell(.finished(.connect(Rig.device)))
            #expect(rig.set("Connected", true) == [])
            #expect(rig.set("Connected", false) == [])
            let before = rig.now
            #expect(try rig.waitForDeadline() == [.call(.takeTurn(adapter: Rig.adapter))])
            #expect(rig.now == before + ConnectionMachine.settleTime)
            _ = rig.tell(.finished(.takeTurn(adapter: Rig.adapter)))
        }
        _ = rig.tell(.finished(.connect(Rig.device)))
        _ = rig.set("Connected", true)
        #expect(rig.set("Connected", false) == [.releaseLink(Rig.device), .fail(BlueZError(.disconnected, ""))])
    }

    /// It was connected all the time `Connect` was under way.
    @Test func takesALinkThatCameWithoutAWord() {
        var rig = Rig(Objects.tree())
        rig.reachConnecting()
        #expect(rig.set("Connected", true) == [])
        #expect(rig.set("ServicesResolved", true) == [])
        #expect(rig.tell(.finished(.connect(Rig.device))) == [.yieldTurn, .call(.refresh)])
    }

    @Test func forgetsATableThatLacksWhatIsAdvertised() throws {
        var rig = Rig(Self.seen)
        rig.reachConnecting()
        _ = rig.tell(.finished(.connect(Rig.device)))
        _ = rig.set("Connected", true)
        _ = rig.set("ServicesResolved", true)
        let forget = ConnectionMachine.Call.removeDevice(Rig.device, adapter: Rig.adapter)
        #expect(rig.tell(.finished(.refresh)) == [.call(forget)])
        _ = rig.tree.apply(.removed(Rig.device, [BlueZName.device]))
        #expect(rig.tell(.treeChanged) == [])
        #expect(rig.tell(.finished(forget)) == [])
        #expect(try rig.waitForDeadline() == [.call(.scan(adapter: Rig.adapter))])
        _ = rig.tree.apply(.added(Rig.device, Objects.device))
        #expect(rig.tell(.treeChanged) == [.stopScan, .call(.takeTurn(adapter: Rig.adapter))])
        // The second time it is what it is.
        _ = rig.tell(.finished(.takeTurn(adapter: Rig.adapter)))
        _ = rig.tell(.finished(.connect(Rig.device)))
        _ = rig.set("Connected", true)
        _ = rig.set("ServicesResolved", true)
        #expect(rig.tell(.finished(.refresh)) == [.ready(Rig.device)])
    }

    /// One of those that it may be updated by is all that a device has.
    @Test func takesATableWithOneOfTheServices() {
        let other = BluetoothUUID(0x8d53_dc1d_1db7_4cd3_868b_8a52_7460_aa84)
        var rig = Rig(Objects.tree()) { $0.services = [Objects.ota, other] }
        rig.reachReady()
        rig = Rig(Objects.tree()) { $0.services = [other] }
        rig.reachConnecting()
        _ = rig.tell(.finished(.connect(Rig.device)))
        _ = rig.set("Connected", true)
        _ = rig.set("ServicesResolved", true)
        #expect(rig.tell(.finished(.refresh)) == [.call(.removeDevice(Rig.device, adapter: Rig.adapter))])
    }

    @Test func leavesABondAlone() {
        var tree = Self.seen
        tree.set(Rig.device, BlueZName.device, "Paired", true)
        var rig = Rig(tree)
        rig.reachConnecting()
        _ = rig.tell(.finished(.connect(Rig.device)))
        _ = rig.set("Connected", true)
        _ = rig.set("ServicesResolved", true)
        #expect(rig.tell(.finished(.refresh)) == [.ready(Rig.device)])
    }

    // MARK: A link that is there already

    @Test func takesOver() throws {
        var tree = Objects.tree()
        tree.set(Rig.device, BlueZName.device, "Connected", true)
        var rig = Rig(tree) { $0.takesOver = true }
        #expect(rig.tell(.started) == [.call(.disconnect(Rig.device))])
        #expect(rig.set("Connected", false) == [])
        rig.now = .seconds(2)
        #expect(rig.tell(.finished(.disconnect(Rig.device))) == [])
        #expect(try rig.waitForDeadline() == [.call(.takeTurn(adapter: Rig.adapter))])
        #expect(rig.now == .seconds(2) + ConnectionMachine.settleTime)
        #expect(!rig.machine.isShared)
    }

    @Test func shares() {
        var tree = Objects.tree()
        tree.set(Rig.device, BlueZName.device, "Connected", true)
        tree.set(Rig.device, BlueZName.device, "ServicesResolved", true)
        var rig = Rig(tree)
        rig.reachConnecting()
        #expect(rig.tell(.finished(.connect(Rig.device))) == [.yieldTurn, .call(.refresh)])
        #expect(rig.machine.isShared)
        // What is not ours is not ended.
        #expect(rig.tell(.cancelled) == [.fail(BlueZError(.cancelled, ""))])
    }

    /// The link that was there, perhaps our own of before, ends while `Connect` is under way: what comes of it is nobody else's.
    @Test func sharesNoLinkThatHasEnded() {
        var tree = Objects.tree()
        tree.set(Rig.device, BlueZName.device, "Connected", true)
        var told = Rig(tree)
        told.reachConnecting()
        #expect(told.machine.isShared)
        #expect(told.set("Connected", false) == [.own(Rig.device)])
        #expect(!told.machine.isShared)
        #expect(told.tell(.cancelled) == [.releaseLink(Rig.device), .yieldTurn, .fail(BlueZError(.cancelled, ""))])
        // It is back before the end is looked at.
        var back = Rig(tree)
        back.reachConnecting()
        back.tree.set(Rig.device, BlueZName.device, "Connected", false)
        #expect(back.set("Connected", true) == [.own(Rig.device)])
        // The cancellation comes in before the news is looked at.
        var cancelled = Rig(tree)
        cancelled.reachConnecting()
        cancelled.tree.set(Rig.device, BlueZName.device, "Connected", false)
        #expect(
            cancelled.tell(.cancelled)
                == [.own(Rig.device), .releaseLink(Rig.device), .yieldTurn, .fail(BlueZError(.cancelled, ""))])
    }

    @Test func sharesNoLinkThatIsMadeAnew() throws {
        var tree = Objects.tree()
        tree.set(Rig.device, BlueZName.device, "Connected", true)
        var rig = Rig(tree)
        rig.reachConnecting()
        #expect(rig.tell(.finished(.connect(Rig.device))) == [.yieldTurn])
        #expect(rig.set("Connected", false) == [.own(Rig.device)])
        #expect(try rig.waitForDeadline() == [.call(.takeTurn(adapter: Rig.adapter))])
        _ = rig.tell(.finished(.takeTurn(adapter: Rig.adapter)))
        #expect(rig.tell(.cancelled).contains(.releaseLink(Rig.device)))
    }

    // MARK: Cancellation

    @Test func cleansUp() {
        var scanning = Rig(Self.empty)
        _ = scanning.tell(.started)
        #expect(scanning.tell(.cancelled) == [.stopScan, .fail(BlueZError(.cancelled, ""))])
        var queueing = Rig(Objects.tree())
        _ = queueing.tell(.started)
        #expect(queueing.tell(.cancelled) == [.yieldTurn, .fail(BlueZError(.cancelled, ""))])
        var connecting = Rig(Objects.tree())
        connecting.reachConnecting()
        #expect(
            connecting.tell(.cancelled) == [.releaseLink(Rig.device), .yieldTurn, .fail(BlueZError(.cancelled, ""))])
        var discovering = Rig(Objects.tree())
        discovering.reachConnecting()
        _ = discovering.tell(.finished(.connect(Rig.device)))
        #expect(discovering.tell(.cancelled) == [.releaseLink(Rig.device), .fail(BlueZError(.cancelled, ""))])
    }
}
