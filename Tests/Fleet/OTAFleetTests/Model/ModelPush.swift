import OTAFleet

/// A push of a gateway to a device in a model world: connect, begin, chunks, apply, restart, confirm.
final class ModelPush {
    enum Phase { case connecting, transferring, onTrial, ended }

    let number: Int
    let device: ModelDevice
    private(set) var phase = Phase.connecting
    private(set) var isInterrupted = false
    private let onlyConfirms: Bool
    private unowned let gateway: ModelGateway
    private unowned let world: ModelWorld
    private var offset = 0
    private var restartEnd = 0

    init(_ number: Int, _ device: ModelDevice, onlyConfirms: Bool, on gateway: ModelGateway, in world: ModelWorld) {
        self.number = number
        self.device = device
        self.onlyConfirms = onlyConfirms
        self.gateway = gateway
        self.world = world
    }

    func start() { later(300, 2000) { $0.connect() } }

    /// An interrupt is a message. The push ends at its next step, after 2 s at the latest.
    func interrupt() { isInterrupted = true }

    private func later(_ least: Int, _ most: Int, _ step: @escaping (ModelPush) -> Void) {
        world.after(world.random(least, most), on: gateway) { [self] in
            guard phase != .ended else { return }
            if isInterrupted, phase != .onTrial { return end(.retry(.leaseLost)) }
            step(self)
        }
    }

    private var linkFails: Bool { world.hasFaults && world.chance(phase == .onTrial ? 10 : 1) }

    private func end(_ result: PushEnd) {
        phase = .ended
        gateway.ended(self, result)
    }

    private func connect() {
        guard !linkFails else { return end(.retry(.linkLost)) }
        switch device.status(at: world.now) {
        case .confirmed: end(.updated)
        case .trial, .unreachable: enterTrial()
        case .old where onlyConfirms: end(.retry(.notInTrial))
        case .old:
            offset = device.begin(number)
            phase = .transferring
            gateway.progress(self, .transfer, offset)
            later(100, 1900) { $0.transfer() }
        }
    }

    private func transfer() {
        guard !linkFails else { return end(.retry(.linkLost)) }
        guard offset < ModelDevice.chunks else {
            guard device.apply(number, at: world.now) else { return end(.retry(.linkLost)) }
            return enterTrial()
        }
        guard device.accept(chunk: offset, of: number) else { return end(.retry(.linkLost)) }
        offset += 1
        gateway.progress(self, .transfer, offset)
        later(100, 1900) { $0.transfer() }
    }

    private func enterTrial() {
        phase = .onTrial
        restartEnd = world.now + 60_000
        gateway.progress(self, .trial, ModelDevice.chunks)
        later(2000, 5000) { $0.verify() }
    }

    private func verify() {
        let status = linkFails ? .unreachable : device.status(at: world.now)
        switch status {
        case .confirmed: end(.updated)
        case .trial: end(device.confirm(at: world.now) ? .updated : .failed(.rolledBack))
        case .old: end(.failed(.rolledBack))
        case .unreachable:
            guard world.now < restartEnd else { return end(.failed(.didNotReturn)) }
            later(1000, 3000) { $0.verify() }
        }
    }
}
