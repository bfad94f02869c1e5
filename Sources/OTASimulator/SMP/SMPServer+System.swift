import OTASMP

/// The commands of group 0 (OS).
extension SMPServer {
    func echo(_ map: [String: CBORValue]) throws(SMPRefusal) -> Fields {
        guard let text = map["d"] else { return [("r", .scalar(.text("")))] }
        guard case .text = text else { throw .general(3) }
        return [("r", .scalar(text))]
    }

    /// Schedules a restart. The server responds to requests until then.
    func restart(at now: Duration) -> Fields {
        restartsAt = restartsAt ?? now + configuration.restartDelay
        return []
    }

    /// Returns the system information for a format letter of `uname`. It supports only the letters `i`, `s` and `a`.
    func system(_ map: [String: CBORValue]) throws(SMPRefusal) -> Fields {
        let known = ["i": configuration.board, "s": "Zephyr", "a": "Zephyr \(configuration.board)"]
        guard let output = known[map["format"]?.text ?? "s"] else { throw .general(3) }
        return [("output", .scalar(.text(output)))]
    }

    func bootloader(_ map: [String: CBORValue]) throws(SMPRefusal) -> Fields {
        switch map["query"]?.text {
        case nil: return [("bootloader", .scalar(.text("MCUboot")))]
        case "mode": return [("mode", .scalar(CBORValue(configuration.bootloaderMode ?? 0)))]
        default: throw .general(8)
        }
    }
}
