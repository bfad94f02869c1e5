import CDBus
import Logging

extension DBusConnection {
    func received(_ message: Message) {
        switch message.kind {
        case DBUS_MESSAGE_TYPE_METHOD_RETURN:
            calls.finish(message.replySerial, answer(in: message))
        case DBUS_MESSAGE_TYPE_ERROR:
            calls.finish(message.replySerial, .failure(refusal(in: message)))
        case DBUS_MESSAGE_TYPE_SIGNAL:
            receivedSignal(message)
        case DBUS_MESSAGE_TYPE_METHOD_CALL:
            receivedCall(message)
        default:
            // Unknown message types must be ignored (specification, "Message Types").
            break
        }
    }

    private func answer(in message: Message) -> PendingCalls.Answer {
        do throws(DBusError) { return .success(try MessageReader.arguments(of: message)) } catch {
            return .failure(error)
        }
    }

    private func refusal(in message: Message) -> DBusError {
        do throws(DBusError) {
            return .remote(message.errorName, try MessageReader.arguments(of: message).first?.string ?? "")
        } catch { return error }
    }

    private func receivedSignal(_ message: Message) {
        let arguments: [DBusValue]
        do throws(DBusError) { arguments = try MessageReader.arguments(of: message) } catch {
            logger.debug("a signal was dropped", metadata: ["reason": "\(error.message)"])
            return
        }
        let signal = DBusSignal(
            sender: message.sender, path: message.path, interface: message.interface, member: message.member,
            arguments: arguments)
        // Only libdbus itself can send this signal: it refuses messages with this interface from the bus.
        if signal.interface == Standard.local, signal.member == "Disconnected" {
            end(with: DBusError(.disconnected, "the bus closed the connection"))
            return
        }
        if let change = NameOwnerChange(signal), owners.keys.contains(change.name) {
            owners[change.name] = .some(change.newOwner)
        }
        subscriptions.deliver(signal) { owners[$0] ?? nil }
    }
}
