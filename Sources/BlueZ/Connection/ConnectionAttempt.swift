import DBus

/// What a connection has under way in bluetoothd, so that all of it can be ended: while it is being made, and what is needed for as
/// long as it lasts.
actor ConnectionAttempt {
    nonisolated let executor: DBusExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    private let client: BlueZClient
    private let request: ConnectionRequest
    private let responder: PairingResponder?
    private var target: DeviceTarget { request.target }
    private var scan: (radio: AdapterRadio, ticket: Int)?
    private var turn: (radio: AdapterRadio, ticket: Int)?
    private var agent: (PairingAgent, ticket: Int)?
    /// The device that is ours to disconnect.
    private var opened: DBusObjectPath?
    /// Not ended by a cancellation.
    private var endings: [Task<Void, Never>] = []

    init(_ client: BlueZClient, _ request: ConnectionRequest, _ responder: PairingResponder?) {
        self.client = client
        self.request = request
        self.responder = responder
        executor = client.executor
    }

    /// - Parameter isShared: whether somebody else has connected the device.
    func carryOut(_ call: ConnectionMachine.Call, isShared: Bool) async throws(BlueZError) {
        switch call {
        case .scan(let adapter):
            let radio = await client.radio(adapter)
            let ticket = await radio.newTicket()
            scan = (radio, ticket)
            try await radio.startScan(ticket, target.filter)
        case .admit(let path):
            guard let device = await client.tree.devices[path] else {
                throw BlueZError(.noSuchDevice, "\(target) has vanished")
            }
            try await request.admits?(device)
        case .takeTurn(let adapter):
            let radio = await client.radio(adapter)
            let ticket = await radio.newTicket()
            turn = (radio, ticket)
            await radio.takeTurn(ticket)
        case .connect(let device): try await connect(device, isShared)
        case .disconnect(let device): try await client.disconnect(device)
        case .forget(let device, let adapter):
            _ = try await client.call(
                "forget \(target)", adapter, BlueZName.adapter, "RemoveDevice", [.objectPath(device)])
        case .refresh: try await client.refresh()
        }
    }

    private func connect(_ device: DBusObjectPath, _ isShared: Bool) async throws(BlueZError) {
        if let responder, agent == nil { try await register(responder, for: device) }
        if !isShared { own(device) }
        // The machine's patience ends sooner.
        _ = try await client.call("connect to \(target)", device, BlueZName.device, "Connect", timeout: .seconds(60))
    }

    /// Only now: while a scan is on, whatever is paired on this machine is somebody else's business.
    private func register(_ responder: PairingResponder, for device: DBusObjectPath) async throws(BlueZError) {
        let agent = await client.pairingAgent()
        let (ticket, registration) = await agent.add(responder, for: device)
        do throws(BlueZError) { try registration.get() } catch {
            await agent.remove(ticket)
            throw error
        }
        self.agent = (agent, ticket)
    }

    func own(_ device: DBusObjectPath) {
        guard opened == nil else { return }
        opened = device
        client.links?.opened(device)
    }

    func stopScan() {
        guard let (radio, ticket) = scan else { return }
        scan = nil
        endings.append(Task { await radio.endScan(ticket) })
    }

    func yieldTurn() {
        guard let (radio, ticket) = turn else { return }
        turn = nil
        endings.append(Task { await radio.endTurn(ticket) })
    }

    func releaseLink(_ device: DBusObjectPath) {
        let client = client
        endings.append(Task { await client.bus.releaseLink(device) })
    }

    /// To be called when no call is under way any more.
    func cleanUp() async {
        stopScan()
        yieldTurn()
        for ending in endings { await ending.value }
    }

    /// To be called when there is no link, or not any more.
    func close() async {
        if let opened { client.links?.ended(opened) }
        opened = nil
        if let (agent, ticket) = agent { await agent.remove(ticket) }
        agent = nil
    }
}

extension DeviceTarget {
    /// bluetoothd can look for a service by itself, for nothing else that is of use here.
    fileprivate var filter: ScanFilter {
        if case .only(let services) = self { ScanFilter(services: services) } else { ScanFilter() }
    }
}
