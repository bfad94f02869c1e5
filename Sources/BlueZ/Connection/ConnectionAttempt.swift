import DBus

/// What a connection that is being made has under way in bluetoothd, so that all of it can be ended.
actor ConnectionAttempt {
    nonisolated let executor: DBusExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    private let client: BlueZClient
    private let request: ConnectionRequest
    private var target: DeviceTarget { request.target }
    private var scan: (radio: AdapterRadio, ticket: Int)?
    private var turn: (radio: AdapterRadio, ticket: Int)?
    /// Not ended by a cancellation.
    private var endings: [Task<Void, Never>] = []

    init(_ client: BlueZClient, _ request: ConnectionRequest) {
        self.client = client
        self.request = request
        executor = client.executor
    }

    func carryOut(_ call: ConnectionMachine.Call) async throws(BlueZError) {
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
        case .connect(let device):
            // The machine's patience ends sooner.
            _ = try await client.call(
                "connect to \(target)", device, BlueZName.device, "Connect", timeout: .seconds(60))
        case .disconnect(let device): try await client.disconnect(device)
        case .forget(let device, let adapter):
            _ = try await client.call(
                "forget \(target)", adapter, BlueZName.adapter, "RemoveDevice", [.objectPath(device)])
        case .refresh: try await client.refresh()
        }
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

    func letGo(_ device: DBusObjectPath) {
        let client = client
        endings.append(Task { await client.letGo(device) })
    }

    /// To be called when no call is under way any more.
    func cleanUp() async {
        stopScan()
        yieldTurn()
        for ending in endings { await ending.value }
    }
}

extension DeviceTarget {
    /// bluetoothd can look for a service by itself, for nothing else that is of use here.
    fileprivate var filter: ScanFilter {
        if case .only(let services) = self { ScanFilter(services: services) } else { ScanFilter() }
    }
}
