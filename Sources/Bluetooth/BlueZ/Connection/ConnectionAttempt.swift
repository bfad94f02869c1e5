import DBus

/// The resources that one connection uses: the scan, the turn to connect (`AdapterRadio.takeTurn`), the pairing agent and the
/// record of the link. `cleanUp` releases the scan and the turn when the device is connected or the attempt has failed. `close`
/// releases the agent and the record at the end of the connection.
actor ConnectionAttempt {
    nonisolated let executor: DBusExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    private let client: BlueZClient
    private let request: ConnectionRequest
    private let responder: PairingResponder?
    private var target: DeviceTarget { request.target }
    private var scan: (radio: AdapterRadio, ticket: Int)?
    private var turn: (radio: AdapterRadio, ticket: Int)?
    /// Whether the attempt has connected to the device in its current turn.
    private var isConnected = false
    private var agent: (PairingAgent, ticket: Int)?
    /// The device whose link this program must end; nil if there is no such link. `client.links` contains the record of this link.
    private var opened: DBusObjectPath?
    /// The device of the last call of `Connect`.
    private var opening: DBusObjectPath?
    /// The tasks that release resources. These tasks complete even if the attempt is cancelled.
    private var endings: [Task<Void, Never>] = []

    init(_ client: BlueZClient, _ request: ConnectionRequest, _ responder: PairingResponder?) {
        self.client = client
        self.request = request
        self.responder = responder
        executor = client.executor
    }

    /// Performs a call of the connection machine.
    ///
    /// - Parameter isShared: whether another program has opened the link to the device.
    func carryOut(_ call: ConnectionMachine.Call, isShared: Bool) async throws(BlueZError) {
        switch call {
        case .scan(let adapter):
            let radio = await client.radio(adapter)
            let ticket = await radio.newTicket()
            scan = (radio, ticket)
            try await radio.startScan(ticket, target.filter)
        case .admit(let path):
            guard let device = await client.tree.devices[path] else {
                throw BlueZError(.noSuchDevice, "\(target) is no longer known to bluetoothd")
            }
            try await request.admits?(device)
        case .takeTurn(let adapter):
            let radio = await client.radio(adapter)
            let ticket = await radio.newTicket()
            (turn, isConnected) = ((radio, ticket), false)
            await radio.takeTurn(ticket, for: "\(target)", isUrgent: request.isUrgent?() ?? false)
        case .connect(let device): try await connect(device, isShared)
        case .disconnect(let device): try await client.disconnect(device)
        case .removeDevice(let device, let adapter):
            _ = try await client.call(
                "remove \(target)", adapter, BlueZName.adapter, "RemoveDevice", [.objectPath(device)])
        case .refresh: try await client.refresh()
        }
    }

    private func connect(_ device: DBusObjectPath, _ isShared: Bool) async throws(BlueZError) {
        if let responder, agent == nil { try await register(responder, for: device) }
        if !isShared { own(device) }
        opening = device
        await client.opens(device)
        // The connection machine ends the attempt before this timeout, because the time limit of the machine is shorter.
        _ = try await client.call("connect to \(target)", device, BlueZName.device, "Connect", timeout: .seconds(60))
        isConnected = true
    }

    /// Registers the responder for this device. Call this method only after the scan. During the scan, agents of other programs can then
    /// still answer pairing requests.
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
        endings.append(Task { [isConnected] in await radio.endTurn(ticket, isConnected: isConnected) })
    }

    func releaseLink(_ device: DBusObjectPath) {
        let client = client
        endings.append(Task { await client.bus.releaseLink(device) })
    }

    /// Ends the scan and the turn, and waits for all tasks in `endings`. Call this method only when no call of the connection
    /// machine is pending.
    func cleanUp() async {
        stopScan()
        yieldTurn()
        for ending in endings { await ending.value }
    }

    /// Removes the record of the link, and removes the responder from the pairing agent. Call this method when this program no longer uses
    /// the link.
    func close() async {
        if let opened { client.links?.ended(opened) }
        opened = nil
        if let opening { await client.endOpening(opening) }
        opening = nil
        if let (agent, ticket) = agent { await agent.remove(ticket) }
        agent = nil
    }
}

extension DeviceTarget {
    /// The filter for the scan. It contains only the services of the target. The connection machine compares the addresses and names of
    /// the found devices.
    fileprivate var filter: ScanFilter {
        if case .only(let services) = self { ScanFilter(services: services) } else { ScanFilter() }
    }
}
