import OTASMP

/// Group 0, OS.
extension SMPServer {
    func echo(_ map: [String: CBORValue]) throws(SMPRefusal) -> Fields {
        guard let text = map["d"] else { return [("r", .scalar(.text("")))] }
        guard case .text = text else { throw .general(3) }
        return [("r", .scalar(text))]
    }

    /// It answers for a while after that.
    func restart(at now: Duration) -> Fields {
        restartsAt = restartsAt ?? now + configuration.restartDelay
        return []
    }

    /// The letters of `uname`, of which it has the board's.
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
