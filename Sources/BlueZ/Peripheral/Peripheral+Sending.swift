import DBus
import Logging

/// Sends outgoing items in order.
extension Peripheral {
    func send(_ item: Outgoing) async {
        do throws(DBusError) {
            switch item {
            case .notification(let value, let attribute): try await send(value, attribute)
            case .disconnection(let connection):
                if let device = table.device(of: connection) { try await disconnect(device) }
            case .disconnectionOfAll:
                for device in table.centrals { try await disconnect(device) }
            }
        } catch {
            logger.debug("an outgoing item was not sent", metadata: ["reason": "\(error)"])
        }
    }

    private func send(_ value: [UInt8], _ attribute: LocalAttribute) async throws(DBusError) {
        if let socket = notifySockets[attribute] {
            try await socket.send([value])
        } else if let path = application.path(of: attribute) {
            try await bus.update(path, BlueZName.gattCharacteristic, ["Value": .bytes(value)])
        }
    }

    private func disconnect(_ device: DBusObjectPath) async throws(DBusError) {
        try await bus.callWithoutReply(BlueZName.service, device, BlueZName.device, "Disconnect")
    }
}
