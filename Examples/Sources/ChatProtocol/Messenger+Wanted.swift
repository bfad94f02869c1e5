import BlueZ
import TerminalText

/// The peers with which a messenger chats: any peer, or only the wanted one.
extension Messenger {
    /// Calls the candidates in turn, as soon as there is a message for the wanted peer.
    mutating func updateTurn() {
        guard awaitsPeer else { return }
        let present = devices.identities(where: isWanted)
        let first = candidates.first
        candidates.removeAll { !present.contains($0) }
        candidates += present.subtracting(candidates).sorted { $0.value < $1.value }
        if candidates.isEmpty || candidates.first != first { turnStart = nil }
        if candidates.count > 1, let start = turnStart, now >= start + Self.turnLimit {
            candidates.append(candidates.removeFirst())
            turnStart = nil
        }
        if turnStart == nil, !early.isEmpty, !candidates.isEmpty, canConnect { turnStart = now }
    }

    /// Reports that messages wait for the wanted peer, with increasing waits. The program continues until the user ends it.
    mutating func updateCallNotice() {
        guard awaitsPeer, !early.isEmpty, quitTime == nil else { return callNotice = nil }
        let (start, wait) = callNotice ?? (now, Self.turnLimit)
        callNotice = (start, wait)
        guard now >= start + wait else { return }
        callNotice = (start, wait * 2)
        let reason = candidates.isEmpty ? "is not in range" : "does not answer"
        let seconds = wait.components.seconds
        let name = shown(wanted ?? "")
        notice("No link after \(seconds) s: \(name) \(reason). Still trying; Control-C ends the program.")
    }

    /// Whether to answer the call of a device.
    func isWelcome(_ address: BluetoothAddress, _ device: Devices.Device) -> Bool {
        guard quitTime == nil, !isImpostor(address),
            !links.values.contains(where: { $0.isLink(with: address, device.id) })
        else { return false }
        // The other peer does not know that this peer has left.
        if let peer = device.id, peer != chat, owesGoodbye(peer) { return true }
        guard let chat, let pair = pairs[chat] else {
            // If both peers call each other, the one with the smaller number answers.
            if awaitsPeer, let called, device.id == called, id.value > called.value { return false }
            return isWanted(device.name, address)
        }
        guard pair.link == nil else { return false }
        // If both peers call each other, the one with the smaller number answers.
        if pair.isPeripheral == true { return device.id == chat && id.value < chat.value }
        return device.id == nil || device.id == chat
    }

    /// Whether a chat with this peer may be opened.
    func isWanted(_ name: String, _ address: BluetoothAddress) -> Bool {
        wanted.map { Devices.matches($0, name, address) } ?? true
    }

    /// Whether the user wants another address. Every member of the session can copy the identity of the wanted peer.
    func isImpostor(_ address: BluetoothAddress) -> Bool {
        wanted.flatMap { BluetoothAddress($0) }.map { $0 != address } ?? false
    }
}
