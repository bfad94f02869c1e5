import OTAFirmware
import OTAFleet
import OTAGateway
import OTASigning
import OTASimulator
import Synchronization
import Testing

/// Virtual devices that several gateways hear. A device receives one chunk each second, keeps its chunks, and refuses the chunks of a push
/// that is not the newest.
actor Air {
    static let chunks = 8
    /// How long a device stays on trial, in seconds.
    static let trialTime = 30

    private struct Device {
        enum Status { case old, trial, confirmed }
        var status = Status.old
        var offset = 0
        var owner = 0
        var trialEnd = Duration.zero
    }

    nonisolated let time: VirtualTime
    nonisolated let imageIsBad: Bool
    private var devices: [DeviceID: Device] = [:]
    private var pushes = 0
    private var active = 0
    private var slowDevices: Set<DeviceID> = []
    /// The devices whose next push loses its link on trial, and the length of this trial in seconds.
    private var lostTrials: [DeviceID: Int] = [:]

    private var silentDevices: Set<DeviceID> = []
    private var wrongDevices: Set<DeviceID> = []

    private(set) var acceptedChunks: [DeviceID: Int] = [:]
    private(set) var confirmations: [DeviceID: Int] = [:]
    private(set) var started: [DeviceID] = []
    private(set) var mostActive = 0

    init(_ time: VirtualTime, imageIsBad: Bool = false) {
        self.time = time
        self.imageIsBad = imageIsBad
    }

    var isIdle: Bool { active == 0 }

    /// Makes each chunk of a device take 5 s.
    func slow(_ id: DeviceID) { slowDevices.insert(id) }

    /// Makes a device answer nothing. A push to it ends after 64 s.
    func silence(_ id: DeviceID) { silentDevices.insert(id) }

    /// Makes a device answer to a push in a form that the protocol does not permit.
    func answerWrongly(_ id: DeviceID) { wrongDevices.insert(id) }

    /// Makes the next push to a device lose its link when the device is on trial.
    func loseLink(onTrialOf id: DeviceID, seconds: Int) { lostTrials[id] = seconds }

    func push(
        _ id: DeviceID, onlyConfirms: Bool, isInterrupted: Flag, _ report: @Sendable (PushStep) -> Void
    ) async -> PushEnd {
        pushes += 1
        active += 1
        defer { active -= 1 }
        mostActive = max(mostActive, active)
        started.append(id)
        let push = pushes
        do {
            for _ in 0..<64 where silentDevices.contains(id) && !isInterrupted.isSet {
                try await time.sleep(for: .seconds(1))
            }
            guard !silentDevices.contains(id) else { return .retry(.noAnswer) }
            try await time.sleep(for: .seconds(1))
            report(PushStep(.connect))
            if wrongDevices.contains(id), let reason = Reason("protocol-violation") { return .failed(reason) }
            switch status(of: id) {
            case .confirmed: return .updated
            case .trial: report(PushStep(.trial))
            case .old where onlyConfirms: return .retry(.notInTrial)
            case .old:
                devices[id, default: Device()].owner = push
                report(PushStep(.transfer, offset: devices[id]?.offset, total: Self.chunks))
                while let device = devices[id], device.offset < Self.chunks {
                    for _ in 0..<(slowDevices.contains(id) ? 5 : 1) where !isInterrupted.isSet {
                        try await time.sleep(for: .seconds(1))
                    }
                    if isInterrupted.isSet { return .retry(Reason.linkLost) }
                    guard devices[id]?.owner == push else { return .retry(Reason.linkLost) }
                    devices[id]?.offset += 1
                    acceptedChunks[id, default: 0] += 1
                    report(PushStep(.transfer, offset: devices[id]?.offset, total: Self.chunks))
                }
                report(PushStep(.trial))
                devices[id]?.status = .trial
                devices[id]?.trialEnd = time.now.offset + .seconds(Self.trialTime)
                if let seconds = lostTrials.removeValue(forKey: id) {
                    devices[id]?.trialEnd = time.now.offset + .seconds(seconds)
                    return .retry(Reason.linkLost)
                }
            }
            try await time.sleep(for: .seconds(3))
            if imageIsBad { try await time.sleep(for: .seconds(Self.trialTime)) }
            guard status(of: id) == .trial, !imageIsBad else { return .failed(.rolledBack) }
            devices[id]?.status = .confirmed
            confirmations[id, default: 0] += 1
            return .updated
        } catch {
            return .retry(Reason.linkLost)
        }
    }

    private func status(of id: DeviceID) -> Device.Status {
        if devices[id]?.status == .trial, time.now.offset >= devices[id]?.trialEnd ?? .zero {
            devices[id]?.status = .old
        }
        return devices[id]?.status ?? .old
    }
}

/// The devices that one gateway hears, and their signal strengths.
struct Radio: GatewayDevices {
    let air: Air
    let hears: [DeviceID: Int]
    let product: ProductName
    /// Whether the devices have a signal strength.
    var isRadio = true
    /// Whether the devices go out of range at once.
    var losesAll = false

    func hear(
        record: @escaping @Sendable (DeviceID) async -> RecordedUse, report: @escaping @Sendable (Sighting) -> Void
    ) async {
        for (device, rssi) in hears.sorted(by: { $0.key < $1.key }) {
            report(.heard(device, product: product, version: SemanticVersion("1.3.0"), rssi: isRadio ? rssi : nil))
        }
        if losesAll { for device in hears.keys.sorted() { report(.lost(device)) } }
    }

    func push(
        _ bundle: VerifiedBundle, to device: DeviceID, onlyConfirms: Bool, refusesDowngrade: Bool,
        interrupts: AsyncStream<Void>, report: @escaping @Sendable (PushStep) -> Void
    ) async -> PushEnd {
        let isInterrupted = Flag()
        return await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in interrupts { isInterrupted.set() } }
            let end = await air.push(device, onlyConfirms: onlyConfirms, isInterrupted: isInterrupted, report)
            group.cancelAll()
            return end
        }
    }
}

/// A Boolean that several tasks share.
final class Flag: Sendable {
    private let value = Atomic(false)
    var isSet: Bool { value.load(ordering: .relaxed) }
    func set() { value.store(true, ordering: .relaxed) }
    func clear() { value.store(false, ordering: .relaxed) }
}
