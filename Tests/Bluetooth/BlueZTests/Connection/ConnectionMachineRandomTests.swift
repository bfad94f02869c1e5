import BlueZ
import DBus
import Testing

/// The machine must end everything that it starts, must not wait without limit, and must end once.
@Suite("Connection machine with random events")
struct ConnectionMachineRandomTests {
    @Test(
        "random events: every scan, turn and attempt ends, and the machine always ends",
        arguments: 0..<400 as Range<UInt64>)
    func everythingBegunIsEnded(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let targets = [Rig.address, .name("Bumble"), .only(service: Objects.ota)]
        var rig = Rig(Objects.tree(), targets.randomElement(using: &random) ?? Rig.address) {
            $0.takesOver = Bool.random(using: &random)
            $0.refreshesCache = UInt8.random(in: 0..<8, using: &random) == 0
            $0.waitsForAdapter = Bool.random(using: &random)
        }
        var ledger = Ledger()
        ledger.note(rig.send(.started))
        for _ in 0..<200 where !ledger.isOver {
            Self.disturb(&rig.tree, &random)
            if UInt8.random(in: 0..<3, using: &random) == 0 {
                rig.now += .milliseconds(Int.random(in: 0..<4_000, using: &random))
            }
            ledger.note(rig.send(Self.event(ledger.calls, &random)))
            if case .ready = rig.machine.phase, UInt8.random(in: 0..<8, using: &random) == 0 { break }
        }
        // From here on, only time passes.
        for _ in 0..<40 where !ledger.isOver {
            if case .queueing = rig.machine.phase, let adapter = rig.tree.adapters.keys.first {
                ledger.note(rig.send(.finished(.takeTurn(adapter: adapter))))
            } else if rig.machine.deadline != nil {
                ledger.note(try rig.waitForDeadline())
            } else {
                ledger.note(rig.send(.cancelled))
            }
        }
        #expect(ledger.isOver)
        #expect(!ledger.scans)
        #expect(!ledger.hasTurn)
        #expect(rig.send(.treeChanged).isEmpty && rig.send(.cancelled).isEmpty)
        #expect(rig.now < .seconds(1_000))
    }

    private struct Ledger {
        var calls: [ConnectionMachine.Call] = []
        var scans = false
        var hasTurn = false
        var isOver = false

        mutating func note(_ actions: [ConnectionMachine.Action]) {
            for action in actions {
                #expect(!isOver)
                switch action {
                case .call(.scan(let adapter)):
                    #expect(!scans && !hasTurn)
                    scans = true
                    calls.append(.scan(adapter: adapter))
                case .call(.takeTurn(let adapter)):
                    #expect(!hasTurn)
                    hasTurn = true
                    calls.append(.takeTurn(adapter: adapter))
                case .call(.connect(let device)):
                    #expect(hasTurn && !scans)
                    calls.append(.connect(device))
                case .call(let call): calls.append(call)
                case .stopScan:
                    #expect(scans)
                    scans = false
                case .yieldTurn:
                    #expect(hasTurn)
                    hasTurn = false
                case .releaseLink, .own, .ready: break
                case .fail: isOver = true
                }
            }
        }
    }

    private static func event(
        _ calls: [ConnectionMachine.Call], _ random: inout SeededGenerator
    ) -> ConnectionMachine.Event {
        let codes: [BlueZError.Code] = [
            .inProgress, .failed, .noSuchObject, .connectionFailed, .timedOut, .notPermitted,
        ]
        switch UInt8.random(in: 0..<16, using: &random) {
        case 0..<7:
            guard let call = calls.last else { return .treeChanged }
            return .finished(call)
        case 7, 8:
            guard let call = calls.randomElement(using: &random) else { return .treeChanged }
            return .failed(call, BlueZError(codes.randomElement(using: &random) ?? .failed, ""))
        case 9, 10: return .deadlinePassed
        case 11: return UInt8.random(in: 0..<20, using: &random) == 0 ? .cancelled : .treeChanged
        default: return .treeChanged
        }
    }

    private static func disturb(_ tree: inout BlueZObjectTree, _ random: inout SeededGenerator) {
        let device = Rig.device
        switch UInt8.random(in: 0..<24, using: &random) {
        case 0, 1, 2: tree.set(device, BlueZName.device, "Connected", true)
        case 3: tree.set(device, BlueZName.device, "Connected", false)
        case 4, 5: tree.set(device, BlueZName.device, "ServicesResolved", .boolean(.random(using: &random)))
        case 6: _ = tree.apply(.removed(device, [BlueZName.device]))
        case 7, 8: _ = tree.apply(.added(device, Objects.device))
        case 9: _ = tree.apply(.removed(Objects.servicePath, [BlueZName.gattService]))
        case 10: _ = tree.apply(.added(Objects.servicePath, Objects.service))
        case 11: tree.set(device, BlueZName.device, "RSSI", .random(using: &random) ? .int16(-70) : nil)
        case 12 where UInt8.random(in: 0..<6, using: &random) == 0:
            tree.set(Rig.adapter, BlueZName.adapter, "Powered", false)
        case 13 where UInt8.random(in: 0..<6, using: &random) == 0: _ = tree.apply(.serviceLost)
        case 14: if !tree.isServiceRunning { _ = tree.apply(.snapshot(Objects.all)) }
        default: break
        }
    }
}
