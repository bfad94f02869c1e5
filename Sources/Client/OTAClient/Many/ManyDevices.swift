package import OTALinks
package import OTAUpdate

extension PushQueue.Lane {
    /// The lane of a device.
    ///
    /// - Parameter adapter: the Bluetooth adapter of the push; nil: the first powered adapter.
    package init(of address: DeviceAddress, adapter: String?) {
        switch address.transport {
        case .simulated: self = .simulated
        case .bluetooth: self = .bluetooth(adapter: adapter)
        case .udp: self = .udp
        case .serial(let address): self = .serial("\(address.path)")
        }
    }
}

extension PushQueue.End {
    /// The meaning of a push's result for the queue.
    package init(_ result: Result<UpdateResult, any Error>) {
        switch result {
        case .success(let result): self.init(result.report)
        // The next devices would lose their applications, too.
        case .failure(let error as UpdateError) where error.stoppedApplication == .overwritten: self = .lostTheImage
        case .failure(let error as UpdateError):
            switch error.code.kind {
            case .imageLost: self = .lostTheImage
            case .unreachable: self = .unreachable
            default: self = .failed
            }
        case .failure: self = .failed
        }
    }

    package init(_ report: UpdateReport) {
        // A device with an unknown version is no proof that the update works.
        if case .returned = report.outcome {
            self = .returned
        } else {
            self = .updated(trial: report.device.trialSeconds.map { .seconds($0) })
        }
    }
}

/// The lock of a Bluetooth adapter for a push to several devices. While the lock exists, no other otaflash process of the same user
/// connects over the adapter.
package final class AdapterLock {
    /// The name of the adapter, such as `hci0`.
    package let adapter: String
    private let lock: DeviceLock

    private init(_ adapter: String, _ lock: DeviceLock) { (self.adapter, self.lock) = (adapter, lock) }

    /// Locks an adapter.
    ///
    /// - Parameter name: the adapter; nil: the first powered adapter.
    /// - Returns: nil if the adapter cannot be found. Each push over this adapter then fails, and its error has the reason.
    /// - Throws: `deviceInUse` if another otaflash process uses the adapter; `foreignLock`, `cannotCreate`.
    package static func take(_ name: String?, of client: SharedBlueZClient) async throws(ClientError) -> AdapterLock? {
        guard let adapter = try? await client.adapter(name) else { return nil }
        return AdapterLock(adapter, try DeviceLock(DeviceLock.file(adapter), of: adapter))
    }
}
