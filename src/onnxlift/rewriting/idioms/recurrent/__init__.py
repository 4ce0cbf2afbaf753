"""LSTM, GRU and RNN: layers, directions, cells, and what an exporter unrolled."""
